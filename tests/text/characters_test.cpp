#include "text/characters.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

TEST(Characters, WhiteSpace) {
    for (const char32_t code : {U' ', U'\t', U'\n', U'\r', U'\u0085', U'\u00A0', U'\u2003', U'\u2029', U'\u3000'}) {
        EXPECT_TRUE(is_white_space(code)) << static_cast<unsigned>(code);
    }
    // Neither the Mongolian vowel separator nor the zero-width space is one.
    for (const char32_t code : {U'a', U'\0', U'\u180E', U'\u200B', U'\u2581'}) EXPECT_FALSE(is_white_space(code));
}

TEST(Characters, WordCharacters) {
    for (const char32_t code : {U'a', U'Z', U'0', U'_', U'é', U'語', U'\u0301', U'\u2160', U'\u200D', U'\u24B6'}) {
        EXPECT_TRUE(is_word_character(code)) << static_cast<unsigned>(code);
    }
    for (const char32_t code : {U' ', U'-', U'<', U'½', U'€', U'\U0001F916'}) EXPECT_FALSE(is_word_character(code));
}

TEST(Characters, Numeric) {
    for (const char32_t code : {U'0', U'9', U'½', U'²', U'Ⅳ', U'٣', U'①'}) EXPECT_TRUE(is_numeric(code));
    for (const char32_t code : {U'a', U'/', U':', U'一'}) EXPECT_FALSE(is_numeric(code));
}

}  // namespace
}  // namespace chaos::text
