#include "text/fields.h"

#include "base/words.h"
#include "text/utf8.h"

#include <nlohmann/json.hpp>

namespace chaos::text {
namespace {

constexpr int max_sequence_depth = 8;

Result<void> append_steps(const Field& part, std::string_view key, int depth, std::vector<Field>& steps) {
    CHAOS_TRY(const Field type, part.at("type"));
    CHAOS_TRY(const std::string name, type.text());
    if (name != "Sequence") {
        steps.push_back(part);
        return {};
    }
    if (depth == max_sequence_depth) return part.error("is nested too deeply");
    CHAOS_TRY(const Field members, part.at(key));
    CHAOS_TRY(const std::vector<Field> items, members.items());
    for (const Field& item : items) CHAOS_CHECK(append_steps(item, key, depth + 1, steps));
    return {};
}

}  // namespace

Error Field::error(const std::string& sentence) const {
    return Error{file_ + (path_.empty() ? "" : ": " + path_) + " " + sentence};
}

Error Field::error_in_item(std::size_t index, const std::string& sentence) const {
    return Error{file_ + ": " + path_ + "[" + std::to_string(index) + "] " + sentence};
}

Result<Field> Field::at(std::string_view key) const {
    CHAOS_TRY(std::optional<Field> member, find(key));
    if (!member) return error("has no '" + std::string(key) + "'");
    return *member;
}

Result<std::optional<Field>> Field::find(std::string_view key) const {
    if (!value_->is_object()) return error("must be an object");
    const auto member = value_->find(key);
    if (member == value_->end() || member->is_null()) return std::optional<Field>();
    return std::optional(Field(*member, file_, path_.empty() ? std::string(key) : path_ + "." + std::string(key)));
}

Result<std::vector<Field>> Field::items() const {
    if (!value_->is_array()) return error("must be an array");
    std::vector<Field> result;
    result.reserve(value_->size());
    for (const auto& item : *value_) {
        result.push_back(Field(item, file_, path_ + "[" + std::to_string(result.size()) + "]"));
    }
    return result;
}

Result<std::string> Field::text() const {
    if (!value_->is_string()) return error("must be a string");
    return value_->get<std::string>();
}

Result<std::int64_t> Field::integer(std::int64_t min, std::int64_t max) const {
    if (value_->is_number_integer()) {
        // A number above the signed range would wrap, so it is looked at as what it is.
        const bool huge = value_->is_number_unsigned() && value_->get<std::uint64_t>() > INT64_MAX;
        const auto number = value_->get<std::int64_t>();
        if (!huge && number >= min && number <= max) return number;
    }
    return error("must be a whole number from " + std::to_string(min) + " to " + std::to_string(max));
}

Result<double> Field::number() const {
    if (!value_->is_number()) return error("must be a number");
    return value_->get<double>();
}

Result<bool> Field::flag() const {
    if (!value_->is_boolean()) return error("must be true or false");
    return value_->get<bool>();
}

Result<bool> Field::flag_at(std::string_view key) const {
    CHAOS_TRY(const Field member, at(key));
    return member.flag();
}

Result<bool> Field::flag_at(std::string_view key, bool otherwise) const {
    CHAOS_TRY(const std::optional<Field> member, find(key));
    if (!member) return otherwise;
    return member->flag();
}

Result<char32_t> Field::character() const {
    const std::string* content = value_->get_ptr<const std::string*>();
    if (content != nullptr && !content->empty()) {
        const Character first = character_at(*content, 0);
        if (first.bytes == content->size()) return first.code;
    }
    return error("must be a string of one character");
}

Error Field::unsupported(const std::string& value, std::span<const std::string_view> supported) const {
    return error("is '" + printable(value) + "', which is not supported (only " + one_of(supported) + ")");
}

Result<std::vector<Field>> steps_of(const Field& part, std::string_view key) {
    std::vector<Field> steps;
    CHAOS_CHECK(append_steps(part, key, 0, steps));
    return steps;
}

}  // namespace chaos::text
