// Words for people: the nearest known one for who mistyped, lists in plain English, and what others say made fit to
// read.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace chaos {

// The candidate closest to `word` by edit distance, or "" when none is close enough to be a likely typo.
[[nodiscard]] std::string nearest_word(std::string_view word, std::span<const std::string_view> candidates);

// "a, b or c"
[[nodiscard]] std::string one_of(std::span<const std::string_view> words);

// What somebody else said, for the log: one line, not too long, and nothing in it that a terminal would obey.
inline constexpr std::size_t max_quoted_bytes = 200;
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace chaos
