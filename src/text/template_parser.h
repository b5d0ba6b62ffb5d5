// Makes a tree of statements of the tokens of a template.
#pragma once

#include "base/result.h"
#include "text/template_syntax.h"

#include <string_view>

namespace chaos::text {

// Errors begin with "line N: ".
[[nodiscard]] Result<Body> parse_template(std::string_view source);

}  // namespace chaos::text
