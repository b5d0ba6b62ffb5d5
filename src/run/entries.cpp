#include "run/entries.h"

#include <toml++/toml.h>
#include <algorithm>
#include <utility>

namespace chaos::run {
namespace {

bool is_bare(std::string_view key) {
    constexpr auto is_bare_character = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    };
    return !key.empty() && std::ranges::all_of(key, is_bare_character);
}

// A quoted key keeps its quotes: "train.steps" as one key must not pass for steps of [train].
std::string full_name(const std::string& table, std::string_view key) {
    return (table.empty() ? "" : table + ".") + (is_bare(key) ? std::string(key) : in_quotes(key));
}

Value value_of(const toml::node& node) {
    if (node.is_table()) return {Value::Table{}};
    if (const auto* flag = node.as_boolean()) return {flag->get()};
    if (const auto* number = node.as_integer()) return {number->get()};
    if (const auto* number = node.as_floating_point()) return {number->get()};
    if (const auto* text = node.as_string()) return {text->get()};
    if (const auto* array = node.as_array()) {
        Value::Array items;
        for (const toml::node& item : *array) items.push_back(value_of(item));
        return {std::move(items)};
    }
    return {Value::Moment{}};
}

void flatten(const toml::table& table, const std::string& table_name, std::vector<Entry>& entries) {
    for (const auto& [key, node] : table) {
        const std::string name = full_name(table_name, key.str());
        entries.push_back({name, key.source().begin.line, value_of(node)});
        if (const toml::table* inner = node.as_table()) flatten(*inner, name, entries);
    }
}

}  // namespace

Result<std::vector<Entry>> parse_entries(std::string_view text, const std::string& name) {
    if (text.size() > max_run_file_bytes) {
        return Error{place(name, 0) + "a run file has at most " + std::to_string(max_run_file_bytes) + " bytes, not " +
                     std::to_string(text.size())};
    }
    std::vector<Entry> entries;
    try {
        flatten(toml::parse(text), "", entries);
    } catch (const toml::parse_error& error) {
        return Error{place(name, error.source().begin.line) + "not valid TOML: " + std::string(error.description())};
    }
    std::ranges::stable_sort(entries, {}, &Entry::line);
    return entries;
}

std::string_view type_name(const Value& value) {
    static constexpr std::string_view names[] = {"a table",          "a date or time", "a boolean", "a whole number",
                                                 "a decimal number", "a string",       "an array"};
    static_assert(std::size(names) == std::variant_size_v<decltype(Value::content)>);
    return names[value.content.index()];
}

std::string in_quotes(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
        result += control ? '?' : c;
    }
    return result + '"';
}

std::string place(const std::string& name, std::size_t line) {
    return name + (line > 0 ? ":" + std::to_string(line) : "") + ": ";
}

}  // namespace chaos::run
