// Tokenizer files are written for Oniguruma; we match with PCRE2. The two agree on most of what such patterns use.
// Where they would silently differ the pattern is rewritten, and what cannot be rewritten is refused:
//
//   \s \S         PCRE2 counts U+180E as a space, Oniguruma does not
//   \w \W \b \B   PCRE2 leaves out marks and connectors
//   \h \H \v      a hexadecimal digit and the vertical tab there, kinds of white space in PCRE2
//   \uHHHH {,n}   unknown to PCRE2
//   (?m:...)      a dot that matches newlines: PCRE2's (?s:...)
//   [a[bc]]       a union of classes
//
// `^` and `$` match at every line: compile the result with PCRE2_MULTILINE.
#pragma once

#include "base/result.h"

#include <string>
#include <string_view>

namespace chaos::text {

// The error is the end of a sentence: "uses ..., which is not supported".
[[nodiscard]] Result<std::string> to_pcre2(std::string_view pattern);

}  // namespace chaos::text
