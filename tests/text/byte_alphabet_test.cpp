#include "text/byte_alphabet.h"

#include "text/utf8.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

TEST(ByteAlphabet, EveryByteHasItsCharacter) {
    for (unsigned byte = 0; byte < 256; ++byte) {
        std::string text;
        append_as_alphabet(text, std::string(1, static_cast<char>(byte)));
        const Character character = character_at(text, 0);
        EXPECT_EQ(character.bytes, text.size());
        EXPECT_EQ(byte_of(character.code), byte);
    }
}

TEST(ByteAlphabet, IsGpt2s) {
    std::string text = "»";
    append_as_alphabet(text, "a b\n\xFF\xAD");
    EXPECT_EQ(text, "»aĠbĊÿŃ");
}

TEST(ByteAlphabet, OtherCharactersStandForNoByte) {
    for (const char32_t code : {U' ', U'\0', U'\u00AD', U'\u0144', U'▁', U'\U0010FFFF'})
        EXPECT_EQ(byte_of(code), std::nullopt);
}

}  // namespace
}  // namespace chaos::text
