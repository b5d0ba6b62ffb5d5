#include "text/normalizer.h"

#include "base/random.h"
#include "text/document.h"
#include "text/seed.h"
#include "text/utf8.h"

#include <gtest/gtest.h>
#include <utf8proc.h>
#include <cstdlib>

namespace chaos::text {
namespace {

using test::Document;
using test::error_of;

Normalizer make(const char* json) {
    const Document document(json);
    auto normalizer = Normalizer::parse(document.field());
    EXPECT_TRUE(normalizer.ok()) << error_of(normalizer);
    return std::move(normalizer).value();
}

std::string normalized(const char* json, std::string_view text) {
    std::string buffer;
    return std::string(make(json).normalize({text, true}, buffer).text);
}

TEST(Normalizer, NothingToDo) {
    const auto normalizer = Normalizer::parse(std::nullopt);
    std::string buffer;
    EXPECT_EQ(normalizer->normalize({"e\u0301 ", true}, buffer).text, "e\u0301 ");
    EXPECT_EQ(normalized(R"({"type": "Sequence", "normalizers": []})", "x"), "x");
}

TEST(Normalizer, NormalForms) {
    const char* text = "ae\u0301b \u1E9B\u0323 \uFB01 \u00E9 \u1100\u1161";
    EXPECT_EQ(normalized(R"({"type": "NFC"})", text), "a\u00E9b \u1E9B\u0323 \uFB01 \u00E9 \uAC00");
    EXPECT_EQ(normalized(R"({"type": "NFD"})", text), "ae\u0301b \u017F\u0323\u0307 \uFB01 e\u0301 \u1100\u1161");
    EXPECT_EQ(normalized(R"({"type": "NFKC"})", text), "a\u00E9b \u1E69 fi \u00E9 \uAC00");
    EXPECT_EQ(normalized(R"({"type": "NFKD"})", text), "ae\u0301b s\u0323\u0307 fi e\u0301 \u1100\u1161");
    EXPECT_EQ(normalized(R"({"type": "NFC"})", ""), "");
    EXPECT_EQ(normalized(R"({"type": "NFC"})", std::string("\0e\u0301\0", 5)), std::string("\0\u00E9\0", 4));
    // A character that composition must leave apart.
    EXPECT_EQ(normalized(R"({"type": "NFC"})", "\u0958"), "\u0915\u093C");
}

// Cutting the text at ASCII characters must not show.
TEST(Normalizer, FormsAreThoseOfTheWholeText) {
    const std::uint64_t seed = test::random_seed();
    constexpr char32_t letters[] = {U'a',      U'e',      U' ',      U'\u0301', U'\u0323', U'\u0307',
                                    U'\u00E9', U'\uFB01', U'\u1100', U'\u1161', U'\u11A8', U'語'};
    const Normalizer nfc = make(R"({"type": "NFC"})");
    for (std::uint64_t round = 0; round < 300; ++round) {
        std::string text;
        const std::uint64_t length = random_bits(seed, round, 0) % 40;
        for (std::uint64_t at = 1; at <= length; ++at) {
            append_character(text, letters[random_bits(seed, round, at) % std::size(letters)]);
        }
        auto* whole = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
        std::string buffer;
        EXPECT_EQ(nfc.normalize({text, true}, buffer).text, reinterpret_cast<const char*>(whole)) << "seed " << seed;
        std::free(whole);
    }
}

TEST(Normalizer, PrependAndReplace) {
    const char* llama2 = R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})";
    EXPECT_EQ(normalized(llama2, "a  b"), "▁a▁▁b");
    EXPECT_EQ(normalized(llama2, ""), "");
    EXPECT_EQ(normalized(R"({"type": "Replace", "pattern": {"Regex": "[0-9]+"}, "content": "#$1"})", "a12b3"),
              "a#$1b#$1");
}

TEST(Normalizer, KeepsTrackOfTheStart) {
    std::string buffer;
    const auto at_start = [&](const char* json, std::string_view text) {
        return make(json).normalize({text, true}, buffer).at_start;
    };
    EXPECT_TRUE(at_start(R"({"type": "Prepend", "prepend": "x"})", "a"));
    EXPECT_TRUE(at_start(R"({"type": "NFC"})", "a"));
    const char* squeeze = R"({"type": "Replace", "pattern": {"Regex": " +"}, "content": "_"})";
    EXPECT_TRUE(at_start(squeeze, " a  b"));
    EXPECT_FALSE(at_start(squeeze, "  a"));
    EXPECT_TRUE(at_start(squeeze, "a   b"));
    EXPECT_FALSE(at_start(R"({"type": "Replace", "pattern": {"String": " "}, "content": ""})", " a"));
    EXPECT_FALSE(make(squeeze).normalize({"a", false}, buffer).at_start);
}

TEST(Normalizer, Refusals) {
    const auto refusal = [](const std::string& json) { return error_of(Normalizer::parse(Document(json).field())); };
    EXPECT_EQ(refusal(R"({"type": "Lowercase"})"),
              "t.json: type is 'Lowercase', which is not supported (only NFC, NFD, NFKC, NFKD, Prepend, Replace or "
              "Sequence)");
    EXPECT_EQ(refusal(R"({"type": "Prepend"})"), "t.json has no 'prepend'");
    EXPECT_EQ(refusal(R"({"type": "Replace", "content": ""})"), "t.json has no 'pattern'");
    EXPECT_EQ(refusal(R"({"type": "Prepend", "prepend": ")" + std::string(300, 'x') + R"("})"),
              "t.json: prepend is longer than 256 bytes");
    EXPECT_EQ(refusal(R"([])"), "t.json must be an object");
}

}  // namespace
}  // namespace chaos::text
