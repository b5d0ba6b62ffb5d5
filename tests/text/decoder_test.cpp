#include "text/decoder.h"

#include "text/document.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

using test::Document;
using test::error_of;
using Tokens = std::vector<std::string>;

std::string decoded(const std::string& json, Tokens tokens) {
    const Document document(json);
    const auto decoder = Decoder::parse(document.field());
    return decoder ? decoder->decode(std::move(tokens)) : decoder.error().message;
}

// What a step makes of each token, seen through a Replace that marks where tokens end (all but empty ones).
std::string marked(const std::string& step, Tokens tokens) {
    return decoded(R"({"type": "Sequence", "decoders": [)" + step +
                       R"(, {"type": "Replace", "pattern": {"Regex": "\\z"}, "content": "|"}]})",
                   std::move(tokens));
}

TEST(Decoder, None) {
    EXPECT_EQ(Decoder::parse(std::nullopt)->decode({"a", "b"}), "a b");
    EXPECT_EQ(decoded(R"({"type": "Sequence", "decoders": []})", {"a", "b"}), "ab");
    EXPECT_EQ(Decoder::parse(std::nullopt)->decode({}), "");
}

TEST(Decoder, ByteLevel) {
    const char* json = R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})";
    EXPECT_EQ(decoded(json, {"ĠHello", "Ġ", "Ã", "©", "Ċ"}), " Hello é\n");
    EXPECT_EQ(decoded(json, {"a", "Ã", "b"}), "a\uFFFDb");
    // Not of the alphabet: stands for itself, all of it.
    EXPECT_EQ(decoded(json, {"Ġa b", "▁"}), "Ġa b▁");
    EXPECT_EQ(decoded(json, {}), "");
}

TEST(Decoder, Replace) {
    EXPECT_EQ(decoded(R"({"type": "Replace", "pattern": {"String": "▁"}, "content": " "})", {"▁a▁", "", "b▁▁"}),
              " a b  ");
    EXPECT_EQ(decoded(R"({"type": "Replace", "pattern": {"Regex": "[0-9]+"}, "content": "#"})", {"12", "a3"}), "#a#");
}

TEST(Decoder, ByteFallback) {
    const char* json = R"({"type": "ByteFallback"})";
    EXPECT_EQ(marked(json, {"a", "<0xC3>", "<0xa9>", "b", "<0x0A>"}), "a|é|b|\n|");
    // Of bytes that make no text each becomes a replacement character.
    EXPECT_EQ(marked(json, {"<0xE2>", "<0x82>", "b"}), "\uFFFD|\uFFFD|b|");
    EXPECT_EQ(marked(json, {"<0xC3>", "<0xA9>", "<0xFF>"}), "\uFFFD|\uFFFD|\uFFFD|");
    EXPECT_EQ(marked(json, {"<0xG0>", "<0x0>", "<0x1G>", "<0x+1>"}), "<0xG0>|<0x0>|<0x1G>|<0x+1>|");
}

TEST(Decoder, BytesOfATokenInTheMiddle) {
    const auto bytes = [](const std::string& json, const std::string& token) {
        const Document document(json);
        return Decoder::parse(document.field())->bytes_of(token);
    };
    EXPECT_EQ(Decoder::parse(std::nullopt)->bytes_of("a"), " a");
    const char* byte_level = R"({"type": "ByteLevel"})";
    EXPECT_EQ(bytes(byte_level, "ĠHello"), " Hello");
    EXPECT_EQ(bytes(byte_level, "Ã"), "\xC3");
    EXPECT_EQ(bytes(byte_level, "©"), "\xA9");
    EXPECT_EQ(bytes(byte_level, "▁"), "▁");
    const char* sentence_piece = R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"},
        "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1,
        "stop": 0}]})";
    EXPECT_EQ(bytes(sentence_piece, "▁a"), " a");
    EXPECT_EQ(bytes(sentence_piece, "<0xE2>"), "\xE2");
    EXPECT_EQ(bytes(sentence_piece, "<0x0A>"), "\n");
    EXPECT_EQ(bytes(sentence_piece, ""), "");
    EXPECT_EQ(bytes(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})", "▁a"), " a");
    EXPECT_EQ(bytes(R"({"type": "Strip", "content": "x", "start": 1, "stop": 0})", "xxa"), "xa");
}

TEST(Decoder, FuseAndStrip) {
    EXPECT_EQ(marked(R"({"type": "Fuse"})", {"a", "b"}), "ab|");
    const auto strip = [](int start, int stop) {
        return R"({"type": "Strip", "content": " ", "start": )" + std::to_string(start) + R"(, "stop": )" +
               std::to_string(stop) + "}";
    };
    EXPECT_EQ(marked(strip(1, 0), {"  a ", "b", " "}), " a |b|");
    EXPECT_EQ(marked(strip(0, 2), {" a   ", "b"}), " a |b|");
    EXPECT_EQ(marked(strip(9, 9), {" ", "   ", "x"}), "x|");
    EXPECT_EQ(marked(R"({"type": "Strip", "content": "é", "start": 1, "stop": 1})", {"éaé", "e"}), "a|e|");
}

TEST(Decoder, Metaspace) {
    EXPECT_EQ(decoded(R"({"type": "Metaspace", "replacement": "▁", "add_prefix_space": true})", {"▁Hey▁", "▁you▁▁"}),
              "Hey you  ");
    EXPECT_EQ(decoded(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})", {"▁Hey", "▁you"}),
              " Hey you");
}

TEST(Decoder, Llama2s) {
    const char* json = R"({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";
    EXPECT_EQ(decoded(json, {"▁Hello", "▁", "<0xE2>", "<0x80>", "<0x94>"}), "Hello —");
    EXPECT_EQ(decoded(json, {}), "");
}

TEST(Decoder, Refusals) {
    EXPECT_EQ(
        decoded(R"({"type": "WordPiece"})", {}),
        "t.json: type is 'WordPiece', which is not supported (only ByteLevel, Replace, ByteFallback, Fuse, Strip, "
        "Metaspace or Sequence)");
    EXPECT_EQ(decoded(R"({"type": "Strip", "content": "ab", "start": 0, "stop": 0})", {}),
              "t.json: content must be a string of one character");
    EXPECT_EQ(decoded(R"({"type": "Strip", "content": "a", "start": -1, "stop": 0})", {}),
              "t.json: start must be a whole number from 0 to 2147483647");
    EXPECT_EQ(decoded(R"({"type": "Replace", "pattern": {"String": "a"}})", {}), "t.json has no 'content'");
}

}  // namespace
}  // namespace chaos::text
