// A TOML text as a flat list: every table and every key under its full name ("model.rope.theta") with its line and its
// value, in the order of the text. However a person spells a table (a header, dotted keys, braces), the list is the
// same.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace chaos::run {

inline constexpr std::size_t max_run_file_bytes = 1 << 20;

struct Value {
    struct Table {};   // its keys are entries of their own
    struct Moment {};  // a date or a time; no key takes one
    using Array = std::vector<Value>;

    std::variant<Table, Moment, bool, std::int64_t, double, std::string, Array> content;
};

struct Entry {
    std::string key;
    std::size_t line = 0;
    Value value;
};

// `name` stands for the file in errors.
[[nodiscard]] Result<std::vector<Entry>> parse_entries(std::string_view text, const std::string& name);

// What a value is, for "must be ..., not a string".
[[nodiscard]] std::string_view type_name(const Value& value);

// In double quotes, on one line whatever the text holds.
[[nodiscard]] std::string in_quotes(std::string_view text);

// "run.toml:3: ", or "run.toml: " when no line is known (0).
[[nodiscard]] std::string place(const std::string& name, std::size_t line);

}  // namespace chaos::run
