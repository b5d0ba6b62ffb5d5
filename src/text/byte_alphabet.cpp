#include "text/byte_alphabet.h"

#include <array>

namespace chaos::text {
namespace {

constexpr char32_t alphabet_end = 0x100 + 33 + 34 + 1;

constexpr bool stands_for_itself(unsigned byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

struct Alphabet {
    std::array<char32_t, 256> code_of_byte{};
    std::array<std::int16_t, alphabet_end> byte_of_code{};
};

constexpr Alphabet alphabet = [] {
    Alphabet result;
    for (auto& byte : result.byte_of_code) byte = -1;
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
        const char32_t code = stands_for_itself(byte) ? byte : next++;
        result.code_of_byte[byte] = code;
        result.byte_of_code[code] = static_cast<std::int16_t>(byte);
    }
    return result;
}();

}  // namespace

void append_as_alphabet(std::string& text, std::string_view bytes) {
    const std::size_t start = text.size();
    text.resize(start + 2 * bytes.size());
    char* end = text.data() + start;
    for (const char byte : bytes) {
        const char32_t code = alphabet.code_of_byte[static_cast<unsigned char>(byte)];
        if (code < 0x80) {
            *end++ = static_cast<char>(code);
        } else {
            *end++ = static_cast<char>(0xC0U | code >> 6);
            *end++ = static_cast<char>(0x80U | (code & 0x3FU));
        }
    }
    text.resize(static_cast<std::size_t>(end - text.data()));
}

std::optional<std::uint8_t> byte_of(char32_t code) {
    if (code >= alphabet_end || alphabet.byte_of_code[code] < 0) return std::nullopt;
    return static_cast<std::uint8_t>(alphabet.byte_of_code[code]);
}

}  // namespace chaos::text
