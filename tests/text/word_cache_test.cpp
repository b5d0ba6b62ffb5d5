#include "text/word_cache.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

std::vector<TokenId> found(const WordCache& cache, std::string_view word) {
    const auto ids = cache.find(word);
    return ids ? std::vector<TokenId>(ids->begin(), ids->end()) : std::vector<TokenId>{-1};
}

TEST(WordCache, FindsWhatWasPut) {
    WordCache cache;
    EXPECT_EQ(found(cache, "a"), std::vector<TokenId>{-1});
    cache.put("abc", std::vector<TokenId>{1, 2});
    cache.put("ab", std::vector<TokenId>{3});
    // A word of characters that the model drops.
    cache.put("x", {});
    EXPECT_EQ(found(cache, "abc"), (std::vector<TokenId>{1, 2}));
    EXPECT_EQ(found(cache, "ab"), (std::vector<TokenId>{3}));
    EXPECT_EQ(found(cache, "x"), std::vector<TokenId>{});
    EXPECT_EQ(found(cache, "a"), std::vector<TokenId>{-1});
}

TEST(WordCache, ForgetsWhenFullAndNeverLies) {
    WordCache cache;
    int known = 0;
    constexpr TokenId count = 100'000;
    for (TokenId id = 0; id < count; ++id) {
        const std::string word = "word" + std::to_string(id);
        EXPECT_FALSE(cache.find(word).has_value());
        cache.put(word, std::vector<TokenId>{id, id + 1});
        EXPECT_EQ(found(cache, word), (std::vector<TokenId>{id, id + 1}));
    }
    for (TokenId id = 0; id < count; ++id) {
        const auto ids = cache.find("word" + std::to_string(id));
        if (!ids) continue;
        ++known;
        EXPECT_EQ((*ids)[0], id);
    }
    EXPECT_GT(known, 0);
    EXPECT_LT(known, count / 2);
}

}  // namespace
}  // namespace chaos::text
