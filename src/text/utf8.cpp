#include "text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace chaos::text {
namespace {

struct Stretch {
    std::size_t bytes;
    bool valid;
    bool ends_early = false;  // the text ends before the character does
};

// The character at `offset`, or the bytes that one replacement character stands for.
Stretch stretch_at(std::string_view text, std::size_t offset) {
    const auto lead = static_cast<unsigned char>(text[offset]);
    if (lead < 0x80) return {1, true};
    std::size_t length = 0;
    // The second byte's range keeps out overlong forms, surrogates and codes above U+10FFFF.
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) {
        length = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        length = 3;
        if (lead == 0xE0) low = 0xA0;
        if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        length = 4;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
    } else {
        return {1, false};
    }
    for (std::size_t index = 1; index < length; ++index) {
        if (offset + index >= text.size()) return {index, false, true};
        const auto byte = static_cast<unsigned char>(text[offset + index]);
        if (byte < low || byte > high) return {index, false};
        low = 0x80;
        high = 0xBF;
    }
    return {length, true};
}

bool is_ascii_word(const char* bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    return (word & 0x8080808080808080U) == 0;
}

}  // namespace

void append_character(std::string& text, char32_t code) {
    const auto tail = [&](int shift) { return static_cast<char>(0x80U | ((code >> shift) & 0x3FU)); };
    if (code < 0x80) {
        text.push_back(static_cast<char>(code));
    } else if (code < 0x800) {
        text.push_back(static_cast<char>(0xC0U | code >> 6));
        text.push_back(tail(0));
    } else if (code < 0x10000) {
        text.push_back(static_cast<char>(0xE0U | code >> 12));
        text.push_back(tail(6));
        text.push_back(tail(0));
    } else {
        text.push_back(static_cast<char>(0xF0U | code >> 18));
        text.push_back(tail(12));
        text.push_back(tail(6));
        text.push_back(tail(0));
    }
}

std::size_t valid_utf8_bytes(std::string_view text) {
    std::size_t offset = 0;
    while (offset < text.size()) {
        if (text.size() - offset >= 8 && is_ascii_word(text.data() + offset)) {
            offset += 8;
            continue;
        }
        const Stretch stretch = stretch_at(text, offset);
        if (!stretch.valid) return offset;
        offset += stretch.bytes;
    }
    return offset;
}

std::size_t unfinished_utf8_bytes(std::string_view text) {
    for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(3, text.size()); ++bytes) {
        const bool continues = (static_cast<unsigned char>(text[text.size() - bytes]) & 0xC0U) == 0x80;
        if (!continues) return stretch_at(text, text.size() - bytes).ends_early ? bytes : 0;
    }
    return 0;
}

std::string replace_invalid_utf8(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const std::size_t valid = valid_utf8_bytes(text);
        result.append(text.substr(0, valid));
        text.remove_prefix(valid);
        if (text.empty()) break;
        append_character(result, 0xFFFD);
        text.remove_prefix(stretch_at(text, 0).bytes);
    }
    return result;
}

}  // namespace chaos::text
