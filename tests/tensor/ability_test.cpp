#include "tensor/ability.h"

#include <gtest/gtest.h>

namespace chaos::tensor {
namespace {

constexpr infer::Speed measured{
    .weight_bytes_per_s = 1'000'000'000, .prompt_bytes_per_s = 5, .call_ns = 2'000, .share_permille = 1000};

TEST(Ability, IsWhatWasMeasuredUntilSomethingIsLearnt) {
    const Ability ability(measured);
    EXPECT_EQ(ability.weight_bytes_per_s(), 1'000'000'000U);
    EXPECT_GT(ability.phase_ns(), 3 * measured.call_ns);
}

TEST(Ability, WhatATokenTakesBeyondItsWeightsIsThePhases) {
    Ability ability(measured);
    ability.learn(0.015, 10'000'000, 5);  // 10 ms of weights
    EXPECT_EQ(ability.weight_bytes_per_s(), 1'000'000'000U);
    EXPECT_NEAR(static_cast<double>(ability.phase_ns()), 1e6, 10.0);
}

TEST(Ability, WeightsMayBeFasterThanWasThought) {
    Ability ability(measured);
    ability.learn(0.005, 10'000'000, 5);
    EXPECT_NEAR(static_cast<double>(ability.weight_bytes_per_s()), 2e9, 10.0);
    EXPECT_EQ(ability.phase_ns(), 0U);
    // Who has no weights learns nothing.
    ability.learn(0.001, 0, 5);
    EXPECT_EQ(ability.phase_ns(), 0U);
}

TEST(Ability, ARehearsalTellsHowMuchOfTheTimeItComputes) {
    Ability ability(measured);
    EXPECT_TRUE(ability.learns_from_passes());
    ability.learn(Rehearsed{.usual_s = 0.015, .mean_s = 0.030}, 10'000'000, 5);
    EXPECT_NEAR(static_cast<double>(ability.phase_ns()), 1e6, 10.0);
    EXPECT_EQ(ability.share_permille(), 500U);
    EXPECT_FALSE(ability.learns_from_passes());
    ability.learn(Rehearsed{.usual_s = 0.015, .mean_s = 0.014}, 10'000'000, 5);
    EXPECT_EQ(ability.share_permille(), 1000U);
}

TEST(Paces, TellOnceThereAreEnoughAndForgetTheOldest) {
    Paces paces;
    EXPECT_FALSE(paces.mean_s());
    for (int i = 0; i < 15; ++i) paces.add(100.0, 50.0);
    EXPECT_FALSE(paces.tell());
    for (int i = 0; i < 64; ++i) paces.add(2.0, 1.0);
    EXPECT_TRUE(paces.tell());
    EXPECT_EQ(paces.usual_s(), 2.0);
    EXPECT_EQ(paces.mean_s(), 2.0);
    EXPECT_EQ(paces.mean_own_s(), 1.0);
}

}  // namespace
}  // namespace chaos::tensor
