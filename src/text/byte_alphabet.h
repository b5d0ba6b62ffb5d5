// GPT-2's alphabet: a printable character for every byte, so that a vocabulary of bytes can be written as text.
// Printable bytes of Latin-1 stand for themselves; the others are numbered from U+0100 on (a space is U+0120, "Ġ").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace chaos::text {

// Appends one character per byte of `bytes`.
void append_as_alphabet(std::string& text, std::string_view bytes);

// The byte that a character of the alphabet stands for.
[[nodiscard]] std::optional<std::uint8_t> byte_of(char32_t code);

}  // namespace chaos::text
