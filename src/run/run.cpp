#include "run/run.h"

#include "base/file.h"
#include "base/words.h"
#include "run/assign.h"
#include "run/entries.h"
#include "run/keys.h"
#include "run/settle.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <system_error>
#include <variant>

namespace chaos::run {
namespace {

// "model.rope.theta" -> "model.rope" and "theta".
struct Name {
    std::string_view table;
    std::string_view last;
};

Name split(std::string_view key) {
    const std::size_t dot = key.rfind('.');
    if (dot == std::string_view::npos) return {"", key};
    return {key.substr(0, dot), key.substr(dot + 1)};
}

std::set<std::string_view> tables_of(const std::vector<Key>& keys) {
    std::set<std::string_view> tables;
    for (const Key& key : keys) tables.insert(split(key.name).table);
    return tables;
}

std::string did_you_mean(std::string_view word) {
    return word.empty() ? "" : "; did you mean \"" + std::string(word) + "\"?";
}

// A right name in the wrong table is likelier than a typo.
std::string suggest_key(const std::string& unknown, const std::vector<Key>& keys) {
    const Name name = split(unknown);
    std::vector<std::string_view> siblings;
    for (const Key& key : keys) {
        const Name known = split(key.name);
        if (known.last == name.last && name.last != "kind") return did_you_mean(key.name);
        if (known.table == name.table) siblings.push_back(known.last);
    }
    return did_you_mean(nearest_word(name.last, siblings));
}

Result<void> check_names(const std::vector<Entry>& entries, const std::vector<Key>& keys, const std::string& name) {
    const std::set<std::string_view> tables = tables_of(keys);
    for (const Entry& entry : entries) {
        const std::string where = place(name, entry.line);
        const bool is_table = std::holds_alternative<Value::Table>(entry.value.content);
        const bool is_known_key = std::ranges::find(keys, entry.key, &Key::name) != keys.end();
        const bool is_known_table = tables.contains(entry.key);
        if (is_known_table && !is_table) {
            return Error{where + entry.key + " must be a table, not " + std::string(type_name(entry.value))};
        }
        if (is_known_key || is_known_table) continue;
        if (is_table) {
            const std::vector<std::string_view> known(tables.begin(), tables.end());
            return Error{where + "unknown table \"" + entry.key + "\"" + did_you_mean(nearest_word(entry.key, known))};
        }
        return Error{where + "unknown key \"" + entry.key + "\"" + suggest_key(entry.key, keys)};
    }
    return {};
}

const Entry* find(const std::vector<Entry>& entries, std::string_view key) {
    const auto found = std::ranges::find(entries, key, &Entry::key);
    return found == entries.end() ? nullptr : &*found;
}

bool takes_paths(const Field& field) {
    return std::holds_alternative<File>(field) || std::holds_alternative<Folder>(field) ||
           std::holds_alternative<Files>(field);
}

// Where the paths of a run file are: below a folder, or known one by one.
using Where = std::variant<std::filesystem::path, Places>;

Result<void> read_key(const Entry& entry, const Key& key, const Run& run, const Where& where) {
    if (const std::string refusal = key.refusal != nullptr ? key.refusal(run) : ""; !refusal.empty()) {
        return Error{entry.key + " " + refusal};
    }
    if (!key.beside_init.empty() && !run.model.init.empty()) {
        return Error{entry.key + " cannot be set together with model.init: " + std::string(key.beside_init)};
    }
    if (const auto* folder = std::get_if<std::filesystem::path>(&where))
        return assign(entry.value, entry.key, key.field, *folder);
    if (!takes_paths(key.field)) return assign(entry.value, entry.key, key.field, {});
    const auto& places = std::get<Places>(where);
    const auto known = places.find(entry.key);
    if (known == places.end()) return Error{entry.key + ": it is not known what it stands for here"};
    return assign(known->second, entry.key, key.field);
}

// Walks the keys, not the entries: kinds come first there, and whether another key applies depends on them.
Result<void> read_keys(const std::vector<Entry>& entries, const std::vector<Key>& keys, const Run& run,
                       const std::string& name, const Where& where) {
    for (const Key& key : keys) {
        const Entry* entry = find(entries, key.name);
        if (entry == nullptr) continue;
        if (auto read = read_key(*entry, key, run, where); !read.ok()) {
            return Error{place(name, entry->line) + read.error().message};
        }
    }
    return {};
}

Result<void> use_tokenizer_of_init(Run& run, const std::vector<Entry>& entries, const std::string& name) {
    if (run.model.init.empty() || run.data.kind != "text") return {};
    run.data.tokenizer = run.model.init / "tokenizer.json";
    std::error_code code;
    if (std::filesystem::is_regular_file(run.data.tokenizer, code)) return {};
    return Error{place(name, find(entries, "model.init")->line) + "model.init: there is no file " +
                 run.data.tokenizer.string()};
}

Result<Run> parse(const std::string& text, const std::string& name, const Where& where) {
    CHAOS_TRY(const std::vector<Entry> entries, parse_entries(text, name));
    Run run;
    if (find(entries, "model.path") != nullptr) run.model.kind = "torchscript";
    const std::vector<Key> all_keys = keys(run);
    CHAOS_CHECK(check_names(entries, all_keys, name));
    CHAOS_CHECK(read_keys(entries, all_keys, run, name, where));
    if (const auto conflict = settle(run)) {
        std::size_t line = 0;
        for (const std::string_view key : conflict->keys) {
            const Entry* entry = find(entries, key);
            if (line == 0 && entry != nullptr) line = entry->line;
        }
        return Error{place(name, line) + conflict->sentence};
    }
    CHAOS_CHECK(use_tokenizer_of_init(run, entries, name));
    return run;
}

}  // namespace

Result<Run> parse_run(const std::string& text, const std::string& name, const std::filesystem::path& folder) {
    return parse(text, name, folder);
}

Result<Run> parse_run(const std::string& text, const std::string& name, const Places& places) {
    return parse(text, name, places);
}

Result<Run> read_run(const std::filesystem::path& path) {
    CHAOS_TRY(const std::string text, read_file(path));
    return parse_run(text, path.string(), path.parent_path());
}

}  // namespace chaos::run
