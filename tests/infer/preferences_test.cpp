#include "infer/preferences.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
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

TEST(Preferences, AreForTokensOfTheModelAndModerate) {
    EXPECT_TRUE(check({.bias = {{0, -100.0}, {3, 100.0}}, .presence_penalty = -2.0, .frequency_penalty = 2.0}, 4));
    for (const chaos::text::TokenId token :
         {-1, 4, std::numeric_limits<chaos::text::TokenId>::min(), std::numeric_limits<chaos::text::TokenId>::max()})
        EXPECT_FALSE(check({.bias = {{token, 1.0}}}, 4)) << token;
    for (const double amount : {101.0, -101.0, 1e300, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
        EXPECT_FALSE(check({.bias = {{0, amount}}}, 4)) << amount;
        EXPECT_FALSE(check({.bias = {}, .presence_penalty = amount}, 4)) << amount;
        EXPECT_FALSE(check({.bias = {}, .frequency_penalty = amount}, 4)) << amount;
    }
    Preferences many;
    for (std::size_t i = 0; i <= max_biased_tokens; ++i) many.bias[static_cast<chaos::text::TokenId>(i)] = 1.0;
    EXPECT_FALSE(check(many, 10'000));
}

}  // namespace
