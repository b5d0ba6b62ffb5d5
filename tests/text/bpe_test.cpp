#include "text/bpe.h"

#include "base/random.h"
#include "text/document.h"
#include "text/seed.h"
#include "text/utf8.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

using nlohmann::json;
using test::Document;
using test::error_of;
using Ids = std::vector<TokenId>;

Result<Bpe> make(const std::string& text) {
    return Bpe::parse(Document(text).field());
}

Ids encode(const Result<Bpe>& bpe, std::string_view word) {
    EXPECT_TRUE(bpe.ok()) << error_of(bpe);
    Bpe::Workspace workspace;
    Ids ids;
    bpe->encode(word, workspace, ids);
    // A second time from the cache.
    Ids again;
    bpe->encode(word, workspace, again);
    EXPECT_EQ(again, ids);
    return ids;
}

const char* const letters = R"({"type": "BPE",
    "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5, "cab": 6},
    "merges": [["b", "c"], ["a", "b"], ["a", "bc"]]})";

TEST(Bpe, LowestRankFirstThenLeftmost) {
    const auto bpe = make(letters);
    EXPECT_EQ(encode(bpe, "abc"), (Ids{5}));
    EXPECT_EQ(encode(bpe, "ab"), (Ids{3}));
    EXPECT_EQ(encode(bpe, "abab"), (Ids{3, 3}));
    EXPECT_EQ(encode(bpe, "cab"), (Ids{2, 3}));
    EXPECT_EQ(encode(bpe, ""), (Ids{}));
    const auto pairs = make(R"({"vocab": {"a": 0, "aa": 1}, "merges": ["a a"]})");
    EXPECT_EQ(encode(pairs, "aaaaa"), (Ids{1, 1, 0}));
}

TEST(Bpe, MergesAsStrings) {
    const auto bpe = make(R"({"vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5, "": 9},
        "unk_token": "", "continuing_subword_prefix": "", "end_of_word_suffix": "", "dropout": null,
        "merges": ["#version: 0.2", "b c", "a b", "a bc"]})");
    EXPECT_EQ(encode(bpe, "abc"), (Ids{5}));
}

TEST(Bpe, IgnoreMergesTakesWholeWordsOfTheVocabulary) {
    std::string text = letters;
    text.insert(1, R"("ignore_merges": true, )");
    const auto bpe = make(text);
    EXPECT_EQ(encode(bpe, "cab"), (Ids{6}));
    EXPECT_EQ(encode(bpe, "ccab"), (Ids{2, 2, 3}));
    // Parts of a long word are not words.
    std::string word(100, 'c');
    EXPECT_EQ(encode(bpe, word + "ab").back(), 3);
}

TEST(Bpe, UnknownCharacters) {
    const std::string vocab = R"("vocab": {"<unk>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3, "<0xE2>": 4}, "merges": [])";
    // Without a token for them they are dropped.
    EXPECT_EQ(encode(make("{" + vocab + "}"), "aéxa"), (Ids{1, 1}));
    EXPECT_EQ(encode(make(R"({"unk_token": "<unk>", )" + vocab + "}"), "xya é"), (Ids{0, 0, 1, 0, 0}));
    EXPECT_EQ(encode(make(R"({"unk_token": "<unk>", "fuse_unk": true, )" + vocab + "}"), "xya é"), (Ids{0, 1, 0}));
    // Bytes, where there is a token for each of them.
    const auto fallback = make(R"({"unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, )" + vocab + "}");
    EXPECT_EQ(encode(fallback, "aéa"), (Ids{1, 2, 3, 1}));
    EXPECT_EQ(encode(fallback, "▁a"), (Ids{0, 1}));
    // An unknown character is held back behind the bytes that follow it, as in the reference implementation.
    EXPECT_EQ(encode(fallback, "xéa"), (Ids{2, 3, 0, 1}));
}

TEST(Bpe, LongTextsWithoutWords) {
    const auto bpe = make(R"({"vocab": {"a": 0, "aa": 1, "aaaa": 2}, "merges": ["a a", "aa aa"]})");
    EXPECT_EQ(encode(bpe, std::string(1'000'003, 'a')), [] {
        Ids expected(250'000, 2);
        expected.insert(expected.end(), {1, 0});
        return expected;
    }());
}

// What byte-pair encoding means, word for word. Characters that are no token are not there.
Ids encode_slowly(const json& model, std::string_view word) {
    std::vector<std::string> tokens;
    for (std::size_t at = 0; at < word.size();) {
        const std::size_t bytes = character_at(word, at).bytes;
        const std::string character(word.substr(at, bytes));
        if (model["vocab"].contains(character)) tokens.push_back(character);
        at += bytes;
    }
    while (true) {
        std::size_t best = model["merges"].size();
        std::size_t place = 0;
        for (std::size_t at = 0; at + 1 < tokens.size(); ++at) {
            for (std::size_t rank = 0; rank < best; ++rank) {
                if (model["merges"][rank][0] == tokens[at] && model["merges"][rank][1] == tokens[at + 1]) {
                    best = rank;
                    place = at;
                }
            }
        }
        if (best == model["merges"].size()) break;
        tokens[place] += tokens[place + 1];
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
    Ids ids;
    for (const std::string& token : tokens) ids.push_back(model["vocab"][token].get<TokenId>());
    return ids;
}

// Random vocabularies, words short and long: the queue, the cache and the cuts must not show. Every token has one
// merge, as a trained vocabulary has.
TEST(Bpe, EqualsItsDefinition) {
    const std::uint64_t seed = test::random_seed();
    for (std::uint64_t round = 0; round < 40; ++round) {
        std::uint64_t drawn = 0;
        const auto draw = [&](std::uint64_t below) { return random_bits(seed, round, drawn++) % below; };
        json model = {{"vocab", json::object()}, {"merges", json::array()}};
        std::vector<std::string> tokens = {"a", "b", "c", "é", "▁"};
        for (std::size_t id = 0; id < tokens.size(); ++id) model["vocab"][tokens[id]] = id;
        for (int merge = 0; merge < 30; ++merge) {
            const std::string left = tokens[draw(tokens.size())];
            const std::string right = tokens[draw(tokens.size())];
            if (model["vocab"].contains(left + right)) continue;
            model["vocab"][left + right] = tokens.size();
            model["merges"].push_back({left, right});
            tokens.push_back(left + right);
        }
        const auto bpe = make(model.dump());
        for (const std::uint64_t length : {5U, 20U, 300U}) {
            std::string word;
            constexpr const char* characters[] = {"a", "b", "c", "é", "▁", "x"};
            for (std::uint64_t at = 0; at < length; ++at) word += characters[draw(std::size(characters))];
            EXPECT_EQ(encode(bpe, word), encode_slowly(model, word))
                << "seed " << seed << ", round " << round << ": " << word;
        }
    }
}

TEST(Bpe, Refusals) {
    const auto refusal = [](const std::string& text) { return error_of(make(text)); };
    EXPECT_EQ(refusal(R"({"type": "Unigram"})"), "t.json: type is 'Unigram', which is not supported (only BPE)");
    EXPECT_EQ(refusal(R"({"merges": []})"), "t.json has no 'vocab'");
    EXPECT_EQ(refusal(R"({"vocab": {"a": 0}})"), "t.json has no 'merges'");
    const std::string vocab = R"({"vocab": {"a": 0, "b": 1, "": 2}, )";
    EXPECT_EQ(refusal(vocab + R"("merges": {}})"), "t.json: merges must be an array");
    const std::string malformed = R"(t.json: merges[0] must be two tokens: "a b" or ["a", "b"])";
    for (const char* merge : {R"("ab")", R"("a b c")", R"(["a"])", R"(["a", "b", "c"])", R"(["a", 1])", "7", "null"}) {
        EXPECT_EQ(refusal(vocab + R"("merges": [)" + merge + "]}"), malformed);
    }
    EXPECT_EQ(refusal(vocab + R"("merges": [["a", "z"]]})"),
              "t.json: merges[0] needs the token 'z', which is not in the vocabulary");
    EXPECT_EQ(refusal(vocab + R"("merges": ["a b"]})"),
              "t.json: merges[0] needs the token 'ab', which is not in the vocabulary");
    EXPECT_EQ(refusal(vocab + R"("merges": [["", "b"]]})"),
              "t.json: merges[0] needs the token '', which is not in the vocabulary");
    EXPECT_EQ(refusal(vocab + R"("merges": [], "unk_token": "?"})"),
              "t.json: unk_token is '?', which is not in the vocabulary");
    EXPECT_EQ(refusal(vocab + R"("merges": [], "dropout": 0.1})"), "t.json: dropout is not supported unless it is 0");
    EXPECT_EQ(refusal(vocab + R"("merges": [], "end_of_word_suffix": "</w>"})"),
              "t.json: end_of_word_suffix is not supported unless it is empty");
    EXPECT_EQ(refusal(vocab + R"("merges": [], "continuing_subword_prefix": "##"})"),
              "t.json: continuing_subword_prefix is not supported unless it is empty");
    EXPECT_EQ(refusal(vocab + R"("merges": [], "byte_fallback": 1})"), "t.json: byte_fallback must be true or false");
}

}  // namespace
}  // namespace chaos::text
