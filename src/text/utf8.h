// UTF-8, one character at a time. Everything past the entry of Tokenizer::encode works on valid UTF-8 only, so decoding
// there needs no checks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace chaos::text {

struct Character {
    char32_t code;
    std::size_t bytes;
};

// The character of `text` at `offset`, which must be the start of one; `text` must be valid.
[[nodiscard]] inline Character character_at(std::string_view text, std::size_t offset) {
    const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[offset + index]); };
    const char32_t lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    if (lead < 0xE0) return {(lead & 0x1FU) << 6 | (byte(1) & 0x3FU), 2};
    if (lead < 0xF0) return {(lead & 0x0FU) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU), 3};
    return {(lead & 0x07U) << 18 | (byte(1) & 0x3FU) << 12 | (byte(2) & 0x3FU) << 6 | (byte(3) & 0x3FU), 4};
}

// The character that ends at `end` (at least one does).
[[nodiscard]] inline Character character_before(std::string_view text, std::size_t end) {
    std::size_t start = end - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0U) == 0x80) --start;
    return character_at(text, start);
}

void append_character(std::string& text, char32_t code);

// Whether a byte goes on with a character that another began.
[[nodiscard]] inline bool continues_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

// How many characters begin in `text`.
[[nodiscard]] inline std::size_t count_characters(std::string_view text) {
    std::size_t count = 0;
    for (const char byte : text) count += continues_character(byte) ? 0 : 1;
    return count;
}

// How many bytes of `text` are valid UTF-8, counted from its start.
[[nodiscard]] std::size_t valid_utf8_bytes(std::string_view text);

// How many bytes at the end of `text` begin a character that more bytes may complete: 0 to 3.
[[nodiscard]] std::size_t unfinished_utf8_bytes(std::string_view text);

// `text` with U+FFFD for every longest stretch that begins a character but does not complete it, and for every other
// byte that belongs to none: what Rust, Python and browsers do.
[[nodiscard]] std::string replace_invalid_utf8(std::string_view text);

}  // namespace chaos::text
