// A place in a JSON file that knows its own name, so that whoever reads a value can say which field of which file is
// wrong. The JSON value must outlive it.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::text {

class Field {
public:
    // The whole of `file`.
    Field(const nlohmann::json& value, std::string file) : value_(&value), file_(std::move(file)) {}

    // "FILE: PATH SENTENCE", where the sentence goes on from its subject: "must be a string".
    [[nodiscard]] Error error(const std::string& sentence) const;
    // The same for an item of a long array, of which no Field was made.
    [[nodiscard]] Error error_in_item(std::size_t index, const std::string& sentence) const;

    // A member that must be there. Here as everywhere below, null counts as absent.
    [[nodiscard]] Result<Field> at(std::string_view key) const;
    [[nodiscard]] Result<std::optional<Field>> find(std::string_view key) const;
    [[nodiscard]] Result<std::vector<Field>> items() const;

    [[nodiscard]] Result<std::string> text() const;
    [[nodiscard]] Result<std::int64_t> integer(std::int64_t min, std::int64_t max) const;
    [[nodiscard]] Result<double> number() const;
    [[nodiscard]] Result<bool> flag() const;
    [[nodiscard]] Result<bool> flag_at(std::string_view key) const;
    [[nodiscard]] Result<bool> flag_at(std::string_view key, bool otherwise) const;
    // A string of exactly one character.
    [[nodiscard]] Result<char32_t> character() const;

    // The error of a `type` (or another choice) that is none of `supported`.
    [[nodiscard]] Error unsupported(const std::string& value, std::span<const std::string_view> supported) const;

    [[nodiscard]] const nlohmann::json& json() const { return *value_; }

private:
    Field(const nlohmann::json& value, std::string file, std::string path)
        : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

    const nlohmann::json* value_;
    std::string file_;
    std::string path_;
};

// The steps of a part of a tokenizer in order: `part` itself, or, where it is a Sequence, the members of its array
// `key`, themselves taken apart.
[[nodiscard]] Result<std::vector<Field>> steps_of(const Field& part, std::string_view key);

}  // namespace chaos::text
