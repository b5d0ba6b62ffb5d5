// Cuts the source of a template into tokens, with Jinja's rules on white space around tags: trim_blocks (a line break
// right behind a block goes) and lstrip_blocks (so does the white space before a block that begins its line).
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::text {

struct TemplateToken {
    enum class Kind {
        data,  // text between tags
        begin_block,
        end_block,
        begin_output,
        end_output,
        name,
        string,  // `text` is its value
        integer,
        real,
        sign,  // an operator or a bracket, spelled in `text`
        end
    };
    Kind kind = Kind::end;
    std::string text;
    std::int64_t integer = 0;
    double real = 0;
    int line = 1;
};

// The last token is `end`. Errors begin with "line N: ".
[[nodiscard]] Result<std::vector<TemplateToken>> cut_template(std::string_view source);

}  // namespace chaos::text
