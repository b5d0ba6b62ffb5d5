// What Python's strings can do, on valid UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::text {

// str.isspace() of one character, which is also \s of Python's regular expressions.
[[nodiscard]] bool is_python_space(char32_t code);

[[nodiscard]] std::size_t characters_in(std::string_view text);
// Where the character with that number begins; the end where there are not so many.
[[nodiscard]] std::size_t offset_of_character(std::string_view text, std::size_t number);

enum class Side { left, right, both };
// Without white space, or without the given characters, on that side.
[[nodiscard]] std::string_view strip(std::string_view text, Side side);
[[nodiscard]] std::string_view strip(std::string_view text, Side side, std::string_view characters);

inline constexpr std::size_t no_limit = static_cast<std::size_t>(-1);
// At runs of white space.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, std::size_t max_splits);
[[nodiscard]] std::vector<std::string_view> split_from_end(std::string_view text, std::size_t max_splits);
// At every separator, which must not be empty.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                                  std::size_t max_splits);
[[nodiscard]] std::vector<std::string_view> split_from_end(std::string_view text, std::string_view separator,
                                                           std::size_t max_splits);
[[nodiscard]] std::vector<std::string_view> split_lines(std::string_view text);

// How often an occurrence of `part` follows another one without overlap; an empty one is between all characters.
[[nodiscard]] std::size_t occurrences(std::string_view text, std::string_view part);
[[nodiscard]] std::string replace(std::string_view text, std::string_view old, std::string_view with,
                                  std::size_t max_times);

[[nodiscard]] std::string upper(std::string_view text);
[[nodiscard]] std::string lower(std::string_view text);
// The first character in upper case, all others in lower case.
[[nodiscard]] std::string capitalize(std::string_view text);
// str.title(): a letter that follows none is in upper case, all others are in lower case.
[[nodiscard]] std::string title(std::string_view text);
// The filter of that name: only spaces and opening brackets begin a word.
[[nodiscard]] std::string title_words(std::string_view text);

[[nodiscard]] bool is_letter(char32_t code);
[[nodiscard]] bool is_digit(char32_t code);

// The text as Python's repr() writes it, with its quotes.
void append_python_literal(std::string& out, std::string_view text);

[[nodiscard]] std::string escape_html(std::string_view text);

}  // namespace chaos::text
