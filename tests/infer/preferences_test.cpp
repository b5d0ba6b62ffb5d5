#include "infer/preferences.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace chaos::infer;

TEST(Preferences, ChangeTheLogitsOfTheirTokens) {
    std::vector<float> logits{1.0F, 2.0F, 3.0F, 4.0F};
    const Preferences preferences{.bias = {{0, 10.0}, {3, -100.0}}, .presence_penalty = 0.5, .frequency_penalty = 0.25};
    EXPECT_TRUE(preferences.any());
    apply(preferences, std::vector<chaos::text::TokenId>{2, 1, 2}, logits);
    EXPECT_EQ(logits, (std::vector<float>{11.0F, 1.25F, 2.0F, -96.0F}));
}

TEST(Preferences, NoneChangeNothing) {
    std::vector<float> logits{1.0F, 2.0F};
    EXPECT_FALSE(Preferences{}.any());
    apply({}, std::vector<chaos::text::TokenId>{0, 1}, logits);
    EXPECT_EQ(logits, (std::vector<float>{1.0F, 2.0F}));
}

}  // namespace
