// JSON as Python's json.dumps() writes it: the filter `tojson`.
#pragma once

#include "base/result.h"
#include "text/template_value.h"

#include <optional>
#include <string>

namespace chaos::text {

struct JsonStyle {
    bool ensure_ascii = false;
    std::optional<std::string> indent;  // of one level; without it, everything stands on one line
    std::string item_separator = ", ";
    std::string key_separator = ": ";
    bool sort_keys = false;
};

[[nodiscard]] Result<std::string> to_json(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace chaos::text
