#include "text/tokenizer.h"

#include "base/file.h"
#include "base/random.h"
#include "shared.h"
#include "temporary_folder.h"
#include "text/document.h"
#include "text/seed.h"
#include "text/utf8.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

namespace chaos::text {
namespace {

using nlohmann::json;
using test::error_of;
using Ids = std::vector<TokenId>;

json read_json(const std::filesystem::path& path) {
    return json::parse(read_file(path).value());
}

// Every byte is a token, and so are a few pairs of them.
json byte_level() {
    json file = json::parse(R"({"version": "1.0", "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {}, "merges": [["a", "b"], ["Ġ", "ab"]]}})");
    int next = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
        std::string character;
        append_character(character, printable ? byte : 0x100U + static_cast<unsigned>(next++));
        file["model"]["vocab"][character] = byte;
    }
    file["model"]["vocab"]["ab"] = 256;
    file["model"]["vocab"]["Ġab"] = 257;
    return file;
}

json added(int id, const char* content, bool special) {
    return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
            {"rstrip", false}, {"normalized", false}, {"special", special}};
}

Result<Tokenizer> parse(const json& file) {
    return Tokenizer::parse(file.dump(), "t.json");
}

TEST(Tokenizer, PutsThePartsTogether) {
    json file = byte_level();
    file["added_tokens"] = {added(258, "<s>", true), added(259, "<tool>", false)};
    file["post_processor"] =
        json::parse(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [258], "tokens": ["<s>"]}}})");
    const auto tokenizer = parse(file);
    ASSERT_TRUE(tokenizer.ok()) << error_of(tokenizer);
    EXPECT_EQ(tokenizer->vocab_size(), 260);
    EXPECT_EQ(tokenizer->id_of("<tool>"), 259);
    EXPECT_EQ(tokenizer->id_of("ab"), 256);
    EXPECT_EQ(tokenizer->id_of("abc"), std::nullopt);

    EXPECT_EQ(tokenizer->encode("ab ab<tool>x<s>"), (Ids{258, 256, 257, 259, 'x', 258}));
    EXPECT_EQ(tokenizer->encode("ab", false), (Ids{256}));
    EXPECT_EQ(tokenizer->encode(""), (Ids{258}));
    EXPECT_EQ(tokenizer->encode("", false), (Ids{}));

    const Ids ids = {258, 256, 257, 259, 258};
    EXPECT_EQ(tokenizer->decode(ids), "ab ab<tool>");
    EXPECT_EQ(tokenizer->decode(ids, false), "<s>ab ab<tool><s>");
    EXPECT_EQ(tokenizer->decode(Ids{-1, 'x', 260, 1'000'000, std::numeric_limits<TokenId>::min()}), "x");
    EXPECT_EQ(tokenizer->decode({}), "");
}

// A special token is skipped however a normalized text spells it.
TEST(Tokenizer, NormalizedAddedTokens) {
    json file = json::parse(R"({"model": {"vocab": {"▁": 0, "a": 1, "▁a": 2}, "merges": ["▁ a"]},
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})");
    file["added_tokens"] = {added(3, "<x>", false), added(4, "<end>", true)};
    file["added_tokens"][0]["normalized"] = true;
    file["added_tokens"][1]["normalized"] = true;
    const auto tokenizer = parse(file);
    ASSERT_TRUE(tokenizer.ok()) << error_of(tokenizer);
    const Ids ids = {2, 3, 1, 4};
    EXPECT_EQ(tokenizer->encode("a <x>a <end>"), ids);
    EXPECT_EQ(tokenizer->decode(ids), "a <x>a");
    EXPECT_EQ(tokenizer->decode(ids, false), "a <x>a <end>");
}

TEST(Tokenizer, MetaspaceFirstIsAboutTheWholeText) {
    json file = json::parse(R"({"model": {"vocab": {"▁": 0, "a": 1, "▁a": 2}, "merges": ["▁ a"]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false}})");
    file["added_tokens"] = {added(3, "<x>", true)};
    const auto tokenizer = parse(file);
    ASSERT_TRUE(tokenizer.ok()) << error_of(tokenizer);
    EXPECT_EQ(tokenizer->encode("a<x>a a"), (Ids{2, 3, 1, 2}));
    EXPECT_EQ(tokenizer->encode("<x>a"), (Ids{3, 1}));
    EXPECT_EQ(tokenizer->decode(Ids{2, 3, 1, 2}), "aa a");
}

TEST(Tokenizer, InvalidTextIsReplaced) {
    const auto tokenizer = parse(byte_level());
    EXPECT_EQ(tokenizer->encode("a\xFF\xE2\x82"), tokenizer->encode("a\uFFFD\uFFFD"));
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\xC0z")), "a\uFFFDz");
}

TEST(Tokenizer, ByteLevelRoundTrips) {
    const auto tokenizer = parse(byte_level());
    const std::uint64_t seed = test::random_seed();
    for (std::uint64_t round = 0; round < 200; ++round) {
        std::string text;
        const std::uint64_t length = random_bits(seed, round, 0) % 200;
        for (std::uint64_t at = 1; at <= length; ++at) {
            const std::uint64_t bits = random_bits(seed, round, at);
            const auto code = static_cast<char32_t>((bits >> 8) % (bits % 3 == 0   ? 0x110000
                                                                   : bits % 3 == 1 ? 0x80
                                                                                   : 0x800));
            append_character(text, code >= 0xD800 && code < 0xE000 ? U' ' : code);
        }
        EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << "seed " << seed << ", round " << round;
    }
}

TEST(Tokenizer, ServesSeveralThreads) {
    const auto tokenizer = parse(byte_level());
    std::string text;
    for (int word = 0; word < 2000; ++word) text += "ab" + std::to_string(word * 7919 % 1000) + " ";
    const Ids expected = tokenizer->encode(text);
    std::vector<Ids> results(4);
    std::vector<std::jthread> threads;
    for (Ids& result : results) {
        threads.emplace_back([&] {
            for (int round = 0; round < 5; ++round) result = tokenizer->encode(text);
        });
    }
    threads.clear();
    for (const Ids& result : results) EXPECT_EQ(result, expected);
}

TEST(Tokenizer, Refusals) {
    const auto refusal = [](const char* key, const char* value) {
        json file = byte_level();
        file[key] = json::parse(value);
        return error_of(parse(file));
    };
    EXPECT_EQ(refusal("version", R"("2.0")"), "t.json: version is '2.0', which is not supported (only 1.0)");
    EXPECT_EQ(refusal("model", "null"), "t.json has no 'model'");
    EXPECT_EQ(refusal("model", R"({"type": "WordPiece", "vocab": {}})"),
              "t.json: model.type is 'WordPiece', which is not supported (only BPE)");
    EXPECT_EQ(refusal("model", R"({"vocab": {"a": 0}, "merges": [["a", "b"]]})"),
              "t.json: model.merges[0] needs the token 'b', which is not in the vocabulary");
    EXPECT_TRUE(
        refusal("normalizer", R"({"type": "StripAccents"})").starts_with("t.json: normalizer.type is 'StripAccents'"));
    EXPECT_TRUE(
        refusal("pre_tokenizer", R"({"type": "BertPreTokenizer"})").starts_with("t.json: pre_tokenizer.type is "));
    EXPECT_TRUE(
        refusal("post_processor", R"({"type": "RobertaProcessing"})").starts_with("t.json: post_processor.type is "));
    EXPECT_TRUE(
        refusal("decoder", R"({"type": "CTC"})").starts_with("t.json: decoder.type is 'CTC', which is not supported"));
    EXPECT_EQ(refusal("added_tokens", "{}"), "t.json: added_tokens must be an array");
    EXPECT_EQ(refusal("added_tokens", "[{}]"), "t.json: added_tokens[0] has no 'content'");
    EXPECT_EQ(refusal("post_processor", R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}],
                  "special_tokens": {"x": {"ids": [258]}}})"),
              "t.json: post_processor.special_tokens.x.ids[0] is 258, the id of no token");
    // What only shortens or fills up sequences is nobody's business here.
    EXPECT_EQ(refusal("truncation", R"({"max_length": 1})"), "(no error)");
    EXPECT_EQ(refusal("padding", R"({"strategy": "BatchLongest"})"), "(no error)");
}

TEST(Tokenizer, FilesThatAreNoJson) {
    for (const std::string& text :
         {std::string(), std::string("{"), std::string("{\"a\": \"\xFF\"}"), std::string("nonsense"),
          std::string(100'000, '['), std::string("{\"a\": \"\\uD800\"}")}) {
        EXPECT_TRUE(
            error_of(Tokenizer::parse(text, "t.json")).starts_with("t.json is not valid JSON: parse error at line 1"))
            << error_of(Tokenizer::parse(text, "t.json"));
    }
    const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
    for (const std::string& text : {deep, std::string("null"), std::string("7")}) {
        EXPECT_EQ(error_of(Tokenizer::parse(text, "t.json")), "t.json must be an object");
    }
}

// Whatever is cut from a good file or changed in it, the answer is a tokenizer or an error.
TEST(Tokenizer, DamagedFiles) {
    json file = byte_level();
    file["added_tokens"] = {added(258, "<s>", true)};
    const std::string good = file.dump();
    const std::uint64_t seed = test::random_seed();
    for (std::uint64_t round = 0; round < 2000; ++round) {
        std::string damaged = good;
        for (std::uint64_t change = 0; change <= round % 3; ++change) {
            const std::size_t at = random_bits(seed, round, 2 * change) % damaged.size();
            constexpr std::string_view bytes = "\"{}[]:,0129-aelnu\\";
            damaged[at] = bytes[random_bits(seed, round, 2 * change + 1) % bytes.size()];
        }
        const auto tokenizer = Tokenizer::parse(damaged, "t.json");
        if (!tokenizer) {
            EXPECT_TRUE(tokenizer.error().message.starts_with("t.json")) << "seed " << seed << ", round " << round;
            continue;
        }
        (void)tokenizer->decode(tokenizer->encode("ab ab<s> \xFF é"));
    }
}

TEST(Tokenizer, ReadsFiles) {
    const test::TemporaryFolder folder;
    const auto path = folder / "tokenizer.json";
    EXPECT_NE(error_of(Tokenizer::read(path)).find(path.string()), std::string::npos);
    ASSERT_TRUE(write_file_atomically(path, byte_level().dump()).ok());
    EXPECT_EQ(Tokenizer::read(path)->encode("ab"), (Ids{256}));
}

// Of a model, as GoogleTest wants it.
std::string test_name(std::string model) {
    std::ranges::replace(model, '-', '_');
    return model;
}

struct Reference {
    const char* name;
    const char* model;
};

class TokenizerReference : public testing::TestWithParam<Reference> {};

TEST_P(TokenizerReference, TextsAndIds) {
    CHAOS_NEED_SHARED("models/tokenizers.json");
    const auto tokenizer = Tokenizer::read(test::shared("models") / GetParam().model / "tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << error_of(tokenizer);
    const json cases = read_json(test::shared("models/tokenizers.json")).at(GetParam().name);
    ASSERT_FALSE(cases.empty());
    for (const json& item : cases) {
        const auto text = item["text"].get<std::string>();
        const auto ids = item["ids"].get<Ids>();
        EXPECT_EQ(tokenizer->encode(text), ids) << text;
        EXPECT_EQ(tokenizer->decode(ids), item["back"].get<std::string>());
    }
}

TEST_P(TokenizerReference, LongTextsRoundTrip) {
    CHAOS_NEED_SHARED("data/tinyshakespeare.txt");
    CHAOS_NEED_SHARED("models/tokenizers.json");
    const auto tokenizer = Tokenizer::read(test::shared("models") / GetParam().model / "tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << error_of(tokenizer);
    const std::string text = read_file(test::shared("data/tinyshakespeare.txt")).value();
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

INSTANTIATE_TEST_SUITE_P(Shared, TokenizerReference,
                         testing::Values(Reference{"byte-bpe", "llama3-shakespeare"},
                                         Reference{"sp-bpe", "llama2-tiny"}, Reference{"nfc-bpe", "qwen2-tiny"},
                                         Reference{"nfc-bpe", "qwen3-tiny"}),
                         [](const auto& tested) { return test_name(tested.param.model); });

class TokenizerPrompts : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerPrompts, OfTheReferenceModels) {
    CHAOS_NEED_SHARED("models/tokenizers.json");
    CHAOS_NEED_SHARED("data/tinyshakespeare.txt");
    const auto folder = test::shared("models") / GetParam();
    const auto tokenizer = Tokenizer::read(folder / "tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << error_of(tokenizer);
    const json expected = read_json(folder / "expected.json");
    ASSERT_FALSE(expected.at("cases").empty());
    for (const json& item : expected.at("cases")) {
        const auto prompt = item["prompt"].get<std::string>();
        EXPECT_EQ(tokenizer->encode(prompt), item["ids"].get<Ids>()) << prompt;
        EXPECT_EQ(tokenizer->decode(item["greedy_ids"].get<Ids>()), item["greedy_text"].get<std::string>());
    }
    // The long case is the beginning of a text.
    const auto begin = expected.at("long").at("ids").get<Ids>();
    Ids ids = tokenizer->encode(read_file(test::shared("data/tinyshakespeare.txt")).value());
    ids.resize(begin.size());
    EXPECT_EQ(ids, begin);
}

INSTANTIATE_TEST_SUITE_P(Shared, TokenizerPrompts,
                         testing::Values("llama3-shakespeare", "llama2-tiny", "qwen2-tiny", "qwen3-tiny"),
                         [](const auto& tested) { return test_name(tested.param); });

}  // namespace
}  // namespace chaos::text
