#include "run/assign.h"

#include "base/words.h"
#include "run/glob.h"

#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

namespace chaos::run {
namespace {

namespace fs = std::filesystem;

Error wrong_type(const std::string& subject, std::string_view wanted, const Value& value) {
    return Error{subject + " must be " + std::string(wanted) + ", not " + std::string(type_name(value))};
}

Result<std::int64_t> whole_number(const Value& value, const std::string& subject, std::int64_t least,
                                  std::int64_t most) {
    const auto* number = std::get_if<std::int64_t>(&value.content);
    if (number == nullptr) return wrong_type(subject, "a whole number", value);
    if (*number < least || *number > most) {
        return Error{subject + " must be between " + std::to_string(least) + " and " + std::to_string(most) + ", not " +
                     std::to_string(*number)};
    }
    return *number;
}

std::string range_text(const RealNumber& range) {
    const std::string least = number_text(range.least);
    const std::string most = number_text(range.most);
    switch (range.ends) {
        case RealNumber::Ends::only_least:
            return "at least " + least + " and less than " + most;
        case RealNumber::Ends::only_most:
            return "more than " + least + " and at most " + most;
        case RealNumber::Ends::both:
            break;
    }
    return "between " + least + " and " + most;
}

bool in_range(double number, const RealNumber& range) {
    if (number < range.least || number > range.most) return false;
    if (number == range.least) return range.ends != RealNumber::Ends::only_most;
    if (number == range.most) return range.ends != RealNumber::Ends::only_least;
    return true;
}

Result<double> real_number(const Value& value, const std::string& subject, const RealNumber& range) {
    double number = 0.0;
    if (const auto* whole = std::get_if<std::int64_t>(&value.content)) {
        number = static_cast<double>(*whole);
    } else if (const auto* real = std::get_if<double>(&value.content)) {
        number = *real;
    } else {
        return wrong_type(subject, "a number", value);
    }
    if (!std::isfinite(number)) return Error{subject + " must be a finite number, not " + number_text(number)};
    if (!in_range(number, range)) {
        return Error{subject + " must be " + range_text(range) + ", not " + number_text(number)};
    }
    return number + 0.0;  // -0 becomes 0, which is the same number and must have the same text
}

Result<std::string> word(const Value& value, const std::string& subject, std::span<const std::string_view> accepted) {
    const auto* text = std::get_if<std::string>(&value.content);
    if (text == nullptr) return wrong_type(subject, "a string", value);
    if (is_one_of(*text, accepted)) return *text;
    const std::string nearest = nearest_word(*text, accepted);
    return Error{subject + " must be " + one_of(accepted) + ", not " + in_quotes(*text) +
                 (nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?")};
}

Result<std::vector<std::int64_t>> whole_numbers(const Value& value, const std::string& subject,
                                                const WholeNumbers& range) {
    const auto* items = std::get_if<Value::Array>(&value.content);
    if (items == nullptr) return wrong_type(subject, "an array of whole numbers", value);
    if (items->empty() || items->size() > range.max_count) {
        return Error{subject + " must have between 1 and " + std::to_string(range.max_count) + " items, not " +
                     std::to_string(items->size())};
    }
    std::vector<std::int64_t> numbers;
    for (const Value& item : *items) {
        const std::string item_subject = "item " + std::to_string(numbers.size() + 1) + " of " + subject;
        CHAOS_TRY(const std::int64_t number, whole_number(item, item_subject, range.least, range.most));
        numbers.push_back(number);
    }
    return numbers;
}

Result<std::string> path_text(const Value& value, const std::string& subject) {
    const auto* text = std::get_if<std::string>(&value.content);
    if (text == nullptr) return wrong_type(subject, "a string", value);
    if (text->empty()) return Error{subject + " must not be empty"};
    if (text->find('\0') != std::string::npos) return Error{subject + " must be a path, not " + in_quotes(*text)};
    return *text;
}

Result<fs::path> existing_file(const Value& value, const std::string& subject, const fs::path& folder) {
    CHAOS_TRY(const std::string text, path_text(value, subject));
    const fs::path path = folder / text;
    std::error_code code;
    if (!fs::is_regular_file(path, code)) return Error{subject + ": there is no file " + path.string()};
    return path;
}

Result<fs::path> existing_folder(const Value& value, const std::string& subject, const fs::path& folder) {
    CHAOS_TRY(const std::string text, path_text(value, subject));
    const fs::path path = folder / text;
    std::error_code code;
    if (!fs::is_directory(path, code)) return Error{subject + ": there is no folder " + path.string()};
    return path;
}

// The file a string names, or all those its wildcards match.
Result<std::vector<fs::path>> named_files(const Value& value, const std::string& subject, const fs::path& folder) {
    CHAOS_TRY(const fs::path path, path_text(value, subject));
    const std::string pattern = path.filename().string();
    if (has_wildcard(path.parent_path().string())) {
        return Error{subject + " may have * and ? only in the last part of the path " + in_quotes(path.string())};
    }
    if (!has_wildcard(pattern)) return std::vector<fs::path>{folder / path};
    const fs::path searched = folder / path.parent_path();
    auto matching = matching_files(searched, pattern);
    if (!matching.ok()) return Error{subject + ": " + matching.error().message};
    if (matching->empty()) return Error{subject + ": no file matches " + (searched / pattern).string()};
    return matching;
}

Result<std::vector<fs::path>> files(const Value& value, const std::string& subject, const fs::path& folder) {
    if (std::holds_alternative<std::string>(value.content)) return named_files(value, subject, folder);
    const auto* items = std::get_if<Value::Array>(&value.content);
    if (items == nullptr) return wrong_type(subject, "a string or an array of strings", value);
    if (items->empty()) return Error{subject + " must not be empty"};
    std::vector<fs::path> all;
    for (std::size_t i = 0; i < items->size(); ++i) {
        const std::string item_subject = "item " + std::to_string(i + 1) + " of " + subject;
        CHAOS_TRY(const std::vector<fs::path> named, named_files((*items)[i], item_subject, folder));
        all.insert(all.end(), named.begin(), named.end());
    }
    return all;
}

// Keeps the value of a successful reading.
template <class T, class Target>
Result<void> keep(Result<T> read, Target* target) {
    if (!read.ok()) return read.error();
    *target = static_cast<Target>(std::move(read).value());
    return {};
}

struct Assignment {
    const Value& value;
    const std::string& subject;
    const fs::path& folder;

    Result<void> operator()(const WholeNumber& field) const {
        return keep(whole_number(value, subject, field.least, field.most), field.value);
    }
    Result<void> operator()(const RealNumber& field) const {
        return keep(real_number(value, subject, field), field.value);
    }
    Result<void> operator()(const Seed& field) const {
        return keep(whole_number(value, subject, 0, std::numeric_limits<std::int64_t>::max()), field.value);
    }
    Result<void> operator()(const Flag& field) const {
        const auto* flag = std::get_if<bool>(&value.content);
        if (flag == nullptr) return wrong_type(subject, "true or false", value);
        *field.value = *flag;
        return {};
    }
    Result<void> operator()(const Word& field) const { return keep(word(value, subject, field.accepted), field.value); }
    Result<void> operator()(const WholeNumbers& field) const {
        return keep(whole_numbers(value, subject, field), field.value);
    }
    Result<void> operator()(const File& field) const {
        return keep(existing_file(value, subject, folder), field.value);
    }
    Result<void> operator()(const Folder& field) const {
        return keep(existing_folder(value, subject, folder), field.value);
    }
    Result<void> operator()(const Files& field) const {
        CHAOS_CHECK(keep(files(value, subject, folder), field.value));
        return check_count(field, subject);
    }

    static Result<void> check_count(const Files& field, const std::string& subject) {
        if (field.value->size() <= max_files) return {};
        return Error{subject + " must name at most " + std::to_string(max_files) + " files, not " +
                     std::to_string(field.value->size())};
    }
};

}  // namespace

Result<void> assign(const Value& value, const std::string& subject, const Field& field, const fs::path& folder) {
    return std::visit(Assignment{value, subject, folder}, field);
}

Result<void> assign(const std::vector<fs::path>& paths, const std::string& subject, const Field& field) {
    if (const auto* several = std::get_if<Files>(&field)) {
        *several->value = paths;
        return Assignment::check_count(*several, subject);
    }
    if (paths.size() != 1) return Error{subject + " must name one path, not " + std::to_string(paths.size())};
    if (const auto* file = std::get_if<File>(&field)) {
        *file->value = paths.front();
        return {};
    }
    const auto* folder = std::get_if<Folder>(&field);
    if (folder == nullptr) return Error{subject + " takes no path"};
    *folder->value = paths.front();
    return {};
}

}  // namespace chaos::run
