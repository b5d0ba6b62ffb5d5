#include "text/gguf_vocabulary.h"

#include "base/file.h"
#include "shared.h"
#include "text/document.h"
#include "text/gguf_metadata.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace chaos::text {
namespace {

using nlohmann::json;
using test::error_of;
using Ids = std::vector<TokenId>;

GgufVocabulary byte_level() {
    GgufVocabulary vocabulary;
    vocabulary.model = "gpt2";
    vocabulary.pre = "gpt-2";
    vocabulary.tokens = {"<s>", "a", "b", "Ġ", "1", "2", "ab", "Ġab", "12", "<tool>", "e", "Ì", "ģ", "Ã", "©", "Ã©"};
    vocabulary.merges = {"a b", "Ġ ab", "1 2", "Ã ©"};
    vocabulary.token_types = std::vector<std::int32_t>(vocabulary.tokens.size(), 1);
    vocabulary.token_types[0] = 3;
    vocabulary.token_types[9] = 4;
    vocabulary.bos_token_id = 0;
    return vocabulary;
}

Ids encode(const GgufVocabulary& vocabulary, const std::string& text) {
    const auto tokenizer = make_tokenizer(vocabulary, "m.gguf");
    if (!tokenizer) {
        ADD_FAILURE() << error_of(tokenizer);
        return {};
    }
    return tokenizer->encode(text);
}

TEST(GgufVocabulary, KindsOfByteLevel) {
    GgufVocabulary vocabulary = byte_level();
    EXPECT_EQ(encode(vocabulary, "ab ab12<tool><s>"), (Ids{6, 7, 8, 9, 0}));
    vocabulary.pre = "";
    EXPECT_EQ(encode(vocabulary, "ab ab12"), (Ids{6, 7, 8}));
    vocabulary.pre = "smollm";
    EXPECT_EQ(encode(vocabulary, "ab ab12"), (Ids{6, 7, 4, 5}));
    vocabulary.pre = "qwen2";
    EXPECT_EQ(encode(vocabulary, "ab ab12"), (Ids{6, 7, 4, 5}));
    EXPECT_EQ(encode(vocabulary, "e\u0301"), (Ids{15}));
    for (const char* other : {"deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"}) {
        vocabulary.pre = other;
        EXPECT_EQ(encode(vocabulary, "ab ab12"), (Ids{6, 7, 4, 5})) << other;
    }
    for (const char* other : {"falcon3", "falcon-h1", "midm-2.0", "lfm2"}) {
        vocabulary.pre = other;
        EXPECT_EQ(encode(vocabulary, "ab ab12"), (Ids{0, 6, 7, 8})) << other;
    }
    vocabulary.pre = "llama-bpe";
    EXPECT_EQ(encode(vocabulary, "ab ab12"), (Ids{0, 6, 7, 8}));
    EXPECT_EQ(encode(vocabulary, "e\u0301"), (Ids{0, 10, 11, 12}));
    vocabulary.add_bos_token = false;
    vocabulary.eos_token_id = 0;
    vocabulary.add_eos_token = true;
    EXPECT_EQ(encode(vocabulary, "ab"), (Ids{6, 0}));
    vocabulary.pre = "tekken";
    EXPECT_EQ(encode(vocabulary, "ab ab12"), (Ids{6, 7, 4, 5, 0}));
}

TEST(GgufVocabulary, SpecialTokensAreThoseOfControl) {
    const auto tokenizer = make_tokenizer(byte_level(), "m.gguf");
    ASSERT_TRUE(tokenizer.ok()) << error_of(tokenizer);
    EXPECT_EQ(tokenizer->decode(Ids{0, 7, 9}), " ab<tool>");
    EXPECT_EQ(tokenizer->decode(Ids{0, 7, 9}, false), "<s> ab<tool>");
    EXPECT_EQ(tokenizer->vocab_size(), 16);
}

GgufVocabulary sentence_piece() {
    GgufVocabulary vocabulary;
    vocabulary.model = "llama";
    vocabulary.tokens = {"<unk>", "<s>", "</s>"};
    vocabulary.token_types = {2, 3, 3};
    for (unsigned byte = 0; byte < 256; ++byte) {
        constexpr std::string_view digits = "0123456789ABCDEF";
        vocabulary.tokens.push_back(std::string("<0x") + digits[byte >> 4] + digits[byte & 15U] + ">");
        vocabulary.token_types.push_back(6);
    }
    for (const char* token : {"▁", "a", "b", "c", "bc", "ab", "▁a", "abc"}) {
        vocabulary.tokens.emplace_back(token);
        vocabulary.token_types.push_back(1);
    }
    vocabulary.scores.assign(vocabulary.tokens.size(), 0.0F);
    vocabulary.bos_token_id = 1;
    vocabulary.eos_token_id = 2;
    vocabulary.unknown_token_id = 0;
    return vocabulary;
}

TEST(GgufVocabulary, MergesFollowFromScores) {
    constexpr TokenId space = 259;
    constexpr TokenId a = 260;
    constexpr TokenId bc = 263;
    constexpr TokenId space_a = 265;
    constexpr TokenId abc = 266;
    GgufVocabulary vocabulary = sentence_piece();
    // All the same: lower ids first, so "bc" before "▁a".
    EXPECT_EQ(encode(vocabulary, "abc"), (Ids{1, space_a, bc}));
    EXPECT_EQ(encode(vocabulary, "a\xC3\xA9"), (Ids{1, space_a, 3 + 0xC3, 3 + 0xA9}));
    // "ab" and "abc" before all others.
    vocabulary.scores[264] = 2;
    vocabulary.scores[266] = 1;
    EXPECT_EQ(encode(vocabulary, "abc"), (Ids{1, space, abc}));
    vocabulary.add_space_prefix = false;
    vocabulary.add_bos_token = false;
    EXPECT_EQ(encode(vocabulary, "abc a"), (Ids{abc, space_a}));
    const auto tokenizer = make_tokenizer(vocabulary, "m.gguf");
    EXPECT_EQ(tokenizer->decode(Ids{space_a, a}), " aa");
}

TEST(GgufVocabulary, Refusals) {
    const auto refusal = [](GgufVocabulary vocabulary, const auto& change) {
        change(vocabulary);
        return error_of(make_tokenizer(vocabulary, "m.gguf"));
    };
    using Vocabulary = GgufVocabulary;
    EXPECT_EQ(refusal(byte_level(), [](Vocabulary& v) { v.model = "bert"; }),
              "m.gguf: tokenizer.ggml.model is 'bert', which is not supported (only gpt2 or llama)");
    EXPECT_EQ(refusal(byte_level(), [](Vocabulary& v) { v.pre = "deepseek-llm"; }),
              "m.gguf: tokenizer.ggml.pre is 'deepseek-llm', which is not supported (only gpt-2, default, llama-bpe, "
              "llama3, llama-v3, pixtral, falcon3, falcon-h1, midm-2.0, lfm2, qwen2, deepseek-r1-qwen, kormo, f2llmv2, "
              "megrez, smollm, starcoder, refact or tekken)");
    EXPECT_EQ(refusal(byte_level(), [](Vocabulary& v) { v.tokens.clear(); }), "m.gguf: tokenizer.ggml.tokens is empty");
    EXPECT_EQ(refusal(byte_level(), [](Vocabulary& v) { v.tokens[3] = "\xFF"; }),
              "m.gguf: tokenizer.ggml.tokens has a token that is not UTF-8: number 3");
    EXPECT_EQ(refusal(byte_level(), [](Vocabulary& v) { v.merges[1] = "\xFF a"; }),
              "m.gguf: tokenizer.ggml.merges has a merge that is not UTF-8: number 1");
    EXPECT_EQ(refusal(byte_level(), [](Vocabulary& v) { v.merges[1] = "a z"; }),
              "m.gguf: model.merges[1] needs the token 'z', which is not in the vocabulary");
    EXPECT_EQ(refusal(byte_level(), [](Vocabulary& v) { v.token_types.pop_back(); }),
              "m.gguf: tokenizer.ggml.token_type has 15 entries for 16 tokens");
    EXPECT_EQ(refusal(byte_level(), [](Vocabulary& v) { v.bos_token_id = 16; }),
              "m.gguf: tokenizer.ggml.bos_token_id is 16, the id of no token");
    EXPECT_EQ(refusal(sentence_piece(), [](Vocabulary& v) { v.scores.clear(); }),
              "m.gguf: tokenizer.ggml.scores has 0 entries for 267 tokens");
    EXPECT_EQ(refusal(sentence_piece(), [](Vocabulary& v) { v.scores[260] = NAN; }),
              "m.gguf: tokenizer.ggml.scores has one that is no number: 260");
}

struct Reference {
    const char* name;
    const char* file;
    const char* model;
};

class GgufReference : public testing::TestWithParam<Reference> {};

TEST_P(GgufReference, IdsAreThoseOfTheTokenizerFile) {
    CHAOS_NEED_SHARED("models/tokenizers.json");
    CHAOS_NEED_SHARED("data/tinyshakespeare.txt");
    const auto vocabulary = test::GgufMetadata::read(test::shared("models/gguf") / GetParam().file);
    const auto tokenizer = make_tokenizer(vocabulary, GetParam().file);
    ASSERT_TRUE(tokenizer.ok()) << error_of(tokenizer);
    const json cases = json::parse(read_file(test::shared("models/tokenizers.json")).value()).at(GetParam().name);
    for (const json& item : cases) {
        const auto text = item["text"].get<std::string>();
        const auto ids = item["ids"].get<Ids>();
        EXPECT_EQ(tokenizer->encode(text), ids) << text;
        EXPECT_EQ(tokenizer->decode(ids), item["back"].get<std::string>());
    }
    const auto original = Tokenizer::read(test::shared("models") / GetParam().model / "tokenizer.json");
    ASSERT_TRUE(original.ok()) << error_of(original);
    EXPECT_EQ(tokenizer->vocab_size(), original->vocab_size());
    const std::string text = read_file(test::shared("data/tinyshakespeare.txt")).value();
    EXPECT_TRUE(tokenizer->encode(text) == original->encode(text));
}

INSTANTIATE_TEST_SUITE_P(Shared, GgufReference,
                         testing::Values(Reference{"byte-bpe", "llama3-shakespeare-f16.gguf", "llama3-shakespeare"},
                                         Reference{"sp-bpe", "llama2-tiny-q8_0.gguf", "llama2-tiny"},
                                         Reference{"nfc-bpe", "qwen3-tiny-f16.gguf", "qwen3-tiny"}),
                         [](const auto& tested) {
                             std::string name = tested.param.model;
                             std::ranges::replace(name, '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace chaos::text
