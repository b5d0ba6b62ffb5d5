#include "text/utf8.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

using namespace std::string_literals;

TEST(Utf8, ReadsWhatItWrites) {
    for (const char32_t code :
         {0U, 0x41U, 0x7FU, 0x80U, 0x7FFU, 0x800U, 0xD7FFU, 0xE000U, 0xFFFFU, 0x10000U, 0x10FFFFU}) {
        std::string text = "x";
        append_character(text, code);
        const Character character = character_at(text, 1);
        EXPECT_EQ(character.code, code);
        EXPECT_EQ(character.bytes, text.size() - 1);
        EXPECT_EQ(character_before(text, text.size()).code, code);
        EXPECT_EQ(valid_utf8_bytes(text), text.size());
    }
}

TEST(Utf8, CountsValidBytes) {
    EXPECT_EQ(valid_utf8_bytes(""), 0U);
    EXPECT_EQ(valid_utf8_bytes("a\0b"s), 3U);
    EXPECT_EQ(valid_utf8_bytes("eight by\xFF"), 8U);
    EXPECT_EQ(valid_utf8_bytes("ab\xE2\x82"), 2U);
}

TEST(Utf8, ReplacesEachIllFormedStretchOnce) {
    EXPECT_EQ(replace_invalid_utf8("fine — 🤖"), "fine — 🤖");
    EXPECT_EQ(replace_invalid_utf8("a\xFFz"), "a\uFFFDz");
    // A truncated character is one stretch, each stray continuation another.
    EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\xA4"), "\uFFFD");
    EXPECT_EQ(replace_invalid_utf8("\xE2\x82z"), "\uFFFDz");
    EXPECT_EQ(replace_invalid_utf8("\x80\x80"), "\uFFFD\uFFFD");
    // Overlong forms, surrogates and codes past the last one: no byte of them begins a character.
    EXPECT_EQ(replace_invalid_utf8("\xC0\xAF"), "\uFFFD\uFFFD");
    EXPECT_EQ(replace_invalid_utf8("\xE0\x80\x80"), "\uFFFD\uFFFD\uFFFD");
    EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
    EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
    EXPECT_EQ(replace_invalid_utf8("\xF5z"), "\uFFFDz");
}

}  // namespace
}  // namespace chaos::text
