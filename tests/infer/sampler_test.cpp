#include "infer/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace chaos::infer {
namespace {

using ::testing::HasSubstr;

constexpr std::array logits = {0.0F, 2.0F, 1.0F, 2.0F, -1.0F};

// How often each token is drawn in 20,000.
std::map<TokenId, double> shares(const Sampling& sampling) {
    std::map<TokenId, double> counts;
    constexpr int draws = 20'000;
    for (std::uint64_t i = 0; i < draws; ++i) counts[sample(logits, sampling, i, {})->token] += 1.0 / draws;
    return counts;
}

TEST(Sampler, TemperatureZeroTakesTheFirstOfTheMostLikely) {
    EXPECT_EQ(sample(logits, {}, 0, {})->token, 1);
    EXPECT_EQ(sample(logits, {.temperature = 1e-9}, 0, {})->token, 1);
}

TEST(Sampler, DrawsInProportion) {
    const auto counts = shares({.temperature = 1.0, .seed = 3});
    double total = 0.0;
    for (const float logit : logits) total += std::exp(logit);
    for (TokenId token = 0; token < 5; ++token)
        EXPECT_NEAR(counts.at(token), std::exp(logits[static_cast<std::size_t>(token)]) / total, 0.015) << token;
    const auto cool = shares({.temperature = 0.5, .seed = 4});
    EXPECT_NEAR(cool.at(2) / cool.at(1), std::exp(-2.0), 0.02);
}

TEST(Sampler, TruncationsLeaveTheMostLikely) {
    const auto tokens = [](const Sampling& sampling) {
        std::vector<TokenId> drawn;
        for (const auto& [token, share] : shares(sampling)) drawn.push_back(token);
        return drawn;
    };
    using Tokens = std::vector<TokenId>;
    EXPECT_EQ(tokens({.temperature = 1.0, .top_k = 1}), (Tokens{1}));
    EXPECT_EQ(tokens({.temperature = 1.0, .top_k = 3}), (Tokens{1, 2, 3}));
    // Of the whole, 1 and 3 have 0.38 each and 2 has 0.14.
    EXPECT_EQ(tokens({.temperature = 1.0, .top_p = 0.0}), (Tokens{1}));
    EXPECT_EQ(tokens({.temperature = 1.0, .top_p = 0.3}), (Tokens{1}));
    EXPECT_EQ(tokens({.temperature = 1.0, .top_p = 0.7}), (Tokens{1, 3}));
    EXPECT_EQ(tokens({.temperature = 1.0, .top_p = 0.8}), (Tokens{1, 2, 3}));
    EXPECT_EQ(tokens({.temperature = 1.0, .min_p = 0.2}), (Tokens{1, 2, 3}));
    EXPECT_EQ(tokens({.temperature = 1.0, .min_p = 1.0}), (Tokens{1, 3}));
    // Among the best two, the first alone has a half.
    EXPECT_EQ(tokens({.temperature = 1.0, .top_k = 2, .top_p = 0.45}), (Tokens{1}));
}

TEST(Sampler, SeedAndNumberDecide) {
    const Sampling sampling{.temperature = 1.0, .seed = 9};
    std::vector<TokenId> first;
    std::vector<TokenId> second;
    for (std::uint64_t i = 0; i < 50; ++i) {
        first.push_back(sample(logits, sampling, i, {})->token);
        second.push_back(sample(logits, {.temperature = 1.0, .seed = 10}, i, {})->token);
        EXPECT_EQ(first.back(), sample(logits, sampling, i, {})->token);
    }
    EXPECT_NE(first, second);
}

TEST(Sampler, ListsTheMostLikelyWithTheModelsProbabilities) {
    const auto sampled = sample(logits, {.temperature = 5.0, .top_k = 1}, 0, {.logprob = true, .top = 3});
    double total = 0.0;
    for (const float logit : logits) total += std::exp(logit);
    EXPECT_NEAR(sampled->logprob, 2.0 - std::log(total), 1e-6);
    ASSERT_EQ(sampled->top.size(), 3U);
    EXPECT_EQ(sampled->top[0].token, 1);
    EXPECT_EQ(sampled->top[1].token, 3);
    EXPECT_EQ(sampled->top[2].token, 2);
    EXPECT_NEAR(sampled->top[2].logprob, 1.0 - std::log(total), 1e-6);
}

TEST(Sampler, LogitsThatAreNoNumbersAreAnError) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {nan, infinity})
        EXPECT_THAT(sample(std::array{1.0F, bad, 2.0F}, {}, 0, {}).error().message, HasSubstr("not numbers"));
    EXPECT_EQ(sample(std::array{1.0F, -infinity, 2.0F}, {.temperature = 1e-2}, 0, {})->token, 2);
}

TEST(Sampler, SettingsOutOfRangeAreRefused) {
    EXPECT_TRUE(check({}));
    EXPECT_THAT(check({.temperature = -1.0}).error().message, HasSubstr("temperature"));
    EXPECT_THAT(check({.temperature = std::nan("")}).error().message, HasSubstr("temperature"));
    EXPECT_THAT(check({.top_k = -1}).error().message, HasSubstr("top-k"));
    EXPECT_THAT(check({.top_p = -0.1}).error().message, HasSubstr("top-p"));
    EXPECT_THAT(check({.min_p = 1.5}).error().message, HasSubstr("min-p"));
}

}  // namespace
}  // namespace chaos::infer
