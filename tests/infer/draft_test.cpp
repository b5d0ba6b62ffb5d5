#include "infer/draft.h"

#include <gtest/gtest.h>

namespace chaos::infer {
namespace {

using Ids = std::vector<text::TokenId>;

TEST(Drafter, GuessesWhatFollowedLastTime) {
    Drafter drafter;
    EXPECT_EQ(drafter.guess(Ids{1, 2, 3, 4, 9, 2, 3}, 2), (Ids{4, 9}));
    EXPECT_EQ(drafter.guess(Ids{1, 2, 5, 1, 2, 6, 1, 2}, 1), (Ids{6}));
    EXPECT_EQ(drafter.guess(Ids{7, 1, 2, 5, 8, 1, 2, 6, 7, 1, 2}, 1), (Ids{5}));  // the longer match
    EXPECT_EQ(drafter.guess(Ids{1, 1, 1}, 4), (Ids{1}));
    EXPECT_TRUE(drafter.guess(Ids{1, 2, 3, 4}, 4).empty());
    EXPECT_TRUE(drafter.guess(Ids{}, 4).empty());
    EXPECT_TRUE(drafter.guess(Ids{1, 2, 1, 2}, 0).empty());
}

TEST(Drafter, GuessesLessWhenItWasWrong) {
    Drafter drafter;
    Ids tokens;
    for (int i = 0; i < 40; ++i) tokens.push_back(i % 20);
    EXPECT_EQ(drafter.guess(tokens, 100).size(), 4U);
    drafter.learn(4, 4);
    EXPECT_EQ(drafter.guess(tokens, 100).size(), 8U);
    for (int i = 0; i < 4; ++i) drafter.learn(8, 0);
    EXPECT_TRUE(drafter.guess(tokens, 100).empty());
    for (int i = 0; i < 15; ++i) EXPECT_TRUE(drafter.guess(tokens, 100).empty());
    EXPECT_EQ(drafter.guess(tokens, 100).size(), 1U);
}

}  // namespace
}  // namespace chaos::infer
