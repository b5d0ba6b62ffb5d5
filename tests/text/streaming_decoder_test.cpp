#include "text/streaming_decoder.h"

#include "base/file.h"
#include "base/random.h"
#include "shared.h"
#include "text/document.h"
#include "text/seed.h"
#include "text/utf8.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <nlohmann/json.hpp>

namespace chaos::text {
namespace {

using nlohmann::json;
using test::error_of;
using Ids = std::vector<TokenId>;
using Parts = std::vector<std::string>;

// What comes out after every token, and at the end.
Parts stream(const Decoder& decoder, const Parts& tokens) {
    DecoderStream streaming(decoder);
    Parts parts;
    for (const std::string& token : tokens) parts.push_back(streaming.push(token));
    parts.push_back(streaming.finish());
    return parts;
}

Decoder decoder_of(const char* text) {
    const test::Document document(text);
    return Decoder::parse(document.field()).value();
}

constexpr const char* byte_level = R"({"type": "ByteLevel"})";
constexpr const char* sentence_piece = R"({"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";
constexpr const char* metaspace = R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})";
constexpr const char* strips_both = R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
    {"type": "Strip", "content": "x", "start": 2, "stop": 2}]})";
constexpr const char* strips_each = R"({"type": "Strip", "content": "x", "start": 1, "stop": 1})";
constexpr const char* odd_order = R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
    {"type": "Replace", "pattern": {"String": "ab"}, "content": "-"}]})";

TEST(StreamingDecoder, NeverHalfACharacter) {
    const Decoder decoder = decoder_of(byte_level);
    // "é" and "🤖", cut between their bytes.
    EXPECT_EQ(stream(decoder, {"a", "Ã", "©b", "ðŁ", "¤", "ĸ"}), (Parts{"a", "", "éb", "", "", "🤖", ""}));
    // One that is never completed.
    EXPECT_EQ(stream(decoder, {"ðŁ", "a", "Ã"}), (Parts{"", "\uFFFDa", "", "\uFFFD"}));
}

TEST(StreamingDecoder, SentencePiece) {
    const Decoder decoder = decoder_of(sentence_piece);
    EXPECT_EQ(stream(decoder, {"▁the", "▁a"}), (Parts{"the", " a", ""}));
    EXPECT_EQ(stream(decoder, {"▁", "▁a"}), (Parts{"", " a", ""}));
    EXPECT_EQ(stream(decoder, {"<0xC3>", "<0xA9>", "b", "<0xC3>"}), (Parts{"", "", "éb", "", "\uFFFD"}));
    // A byte that is wrong spoils those around it.
    EXPECT_EQ(stream(decoder, {"<0xC3>", "<0xA9>", "<0xFF>", "b"}), (Parts{"", "", "", "\uFFFD\uFFFD\uFFFDb", ""}));
    EXPECT_EQ(stream(decoder_of(metaspace), {"▁a", "▁b"}), (Parts{"a", " b", ""}));
}

TEST(StreamingDecoder, WhatIsStrippedFromTheEnd) {
    EXPECT_EQ(stream(decoder_of(strips_both), {"x", "xxa", "x", "x", "xb", "xxx"}),
              (Parts{"", "xa", "", "", "xxxb", "x", ""}));
    EXPECT_EQ(stream(decoder_of(odd_order), {"a", "b"}), (Parts{"", "", "-"}));
}

TEST(StreamingDecoder, WithoutADecoderSpacesStandBetween) {
    const Decoder decoder = Decoder::parse(std::nullopt).value();
    EXPECT_EQ(stream(decoder, {"a", "b"}), (Parts{"a", " b", ""}));
}

TEST(StreamingDecoder, IsWhatDecodeMakesOfAll) {
    const std::uint64_t seed = test::random_seed();
    const Parts tokens = {"a", "▁a", "▁",   "▁▁", "<0xE2>", "<0x96>", "<0x81>", "<0x41>", "<0xFF>",
                          "x", "xx", "xax", "é",  "🤖",     "Ã",      "©",      "ðŁ",     "¤",
                          "ĸ", "ab", "b",   "",   "<0xZZ>", "Ġ",      "Ċ",      " ",      "Ġx"};
    for (const char* text : {byte_level, sentence_piece, metaspace, strips_both, strips_each, odd_order}) {
        const Decoder decoder = decoder_of(text);
        for (std::uint64_t round = 0; round < 2000; ++round) {
            Parts chosen;
            const std::uint64_t count = random_bits(seed, round, 0) % 12;
            for (std::uint64_t at = 1; at <= count; ++at) {
                chosen.push_back(tokens[random_bits(seed, round, at) % tokens.size()]);
            }
            std::string all;
            for (const std::string& part : stream(decoder, chosen)) {
                EXPECT_EQ(valid_utf8_bytes(part), part.size());
                all += part;
            }
            ASSERT_EQ(all, decoder.decode(chosen)) << text << ", round " << round;
        }
    }
}

// What follows a prompt, token by token.
Parts continued(const Tokenizer& tokenizer, const Ids& prompt, const Ids& ids) {
    Continuation text(tokenizer, prompt);
    Parts parts;
    for (const TokenId id : ids) parts.push_back(text.push(id));
    parts.push_back(text.finish());
    return parts;
}

TEST(Continuation, GoesOnBehindThePrompt) {
    json file = json::parse(R"({"model": {"type": "BPE", "byte_fallback": true, "merges": [],
        "vocab": {"▁": 0, "a": 1, "▁b": 2, "<0xC3>": 3, "<0xA9>": 4, "<0xFF>": 5}}})");
    file["decoder"] = json::parse(sentence_piece);
    const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "t.json").value();
    EXPECT_EQ(continued(tokenizer, {2, 1}, {2, 1}), (Parts{" b", "a", ""}));
    EXPECT_EQ(continued(tokenizer, {}, {2, 1}), (Parts{"b", "a", ""}));
    // "aé" and then something, another byte by byte, or nothing.
    EXPECT_EQ(continued(tokenizer, {1, 3, 4}, {2, 1}), (Parts{" b", "a", ""}));
    EXPECT_EQ(continued(tokenizer, {1, 3, 4}, {3, 4, 1}), (Parts{"", "", "éa", ""}));
    EXPECT_EQ(continued(tokenizer, {1, 3, 4}, {3, 4}), (Parts{"", "", "é"}));
    EXPECT_EQ(continued(tokenizer, {1, 3, 4}, {}), (Parts{""}));
    // Half of a character, which the text completes, and a byte that spoils the prompt's.
    EXPECT_EQ(continued(tokenizer, {1, 3}, {4, 1}), (Parts{"", "éa", ""}));
    EXPECT_EQ(continued(tokenizer, {1, 3, 4}, {5, 1}), (Parts{"", "\uFFFD\uFFFD\uFFFDa", ""}));
}

class StreamingReference : public testing::TestWithParam<const char*> {};

TEST_P(StreamingReference, TextsOfTheReferenceModels) {
    CHAOS_NEED_SHARED("models/tokenizers.json");
    const auto tokenizer = Tokenizer::read(test::shared("models") / GetParam() / "tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << error_of(tokenizer);
    const json file = json::parse(read_file(test::shared("models/tokenizers.json")).value());
    for (const auto& [name, cases] : file.items()) {
        for (const json& item : cases) {
            const Ids ids = tokenizer->encode(item["text"].get<std::string>());
            for (const bool skip_special : {true, false}) {
                StreamingDecoder streaming(*tokenizer, skip_special);
                std::string text;
                for (const TokenId id : ids) {
                    const std::string part = streaming.push(id);
                    EXPECT_EQ(valid_utf8_bytes(part), part.size());
                    text += part;
                }
                text += streaming.finish();
                EXPECT_EQ(text, tokenizer->decode(ids, skip_special));
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Shared, StreamingReference, testing::Values("llama3-shakespeare", "llama2-tiny", "qwen2-tiny"),
                         [](const auto& tested) {
                             std::string name = tested.param;
                             std::ranges::replace(name, '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace chaos::text
