// Helping a person who mistyped: the nearest known word, and lists in plain English.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace chaos {

// The candidate closest to `word` by edit distance, or "" when none is close enough to be a likely typo.
[[nodiscard]] std::string nearest_word(std::string_view word, std::span<const std::string_view> candidates);

// "a, b or c"
[[nodiscard]] std::string one_of(std::span<const std::string_view> words);

}  // namespace chaos
