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

double seconds(const Ability& ability, double bytes, double phases) {
    return bytes / static_cast<double>(ability.weight_bytes_per_s()) +
           1e-9 * phases * static_cast<double>(ability.phase_ns());
}

TEST(Ability, ATokenTakesWhatWasLearnt) {
    for (const double own_s : {0.005, 0.010, 0.015, 0.100}) {
        Ability ability(measured);
        ability.learn(own_s, 10'000'000, 5);  // 10 ms of weights
        EXPECT_NEAR(seconds(ability, 1e7, 5), own_s, 1e-5);
    }
}

TEST(Ability, WeightsAndPhasesAreOffByTheSameFactor) {
    Ability ability(measured);
    const auto phase_ns = static_cast<double>(ability.phase_ns());
    ability.learn(1.5 * seconds(ability, 1e7, 5), 10'000'000, 5);
    EXPECT_NEAR(static_cast<double>(ability.weight_bytes_per_s()), 1e9 / 1.5, 10.0);
    EXPECT_NEAR(static_cast<double>(ability.phase_ns()), 1.5 * phase_ns, 10.0);
    // Who has no weights learns nothing.
    ability.learn(0.001, 0, 5);
    EXPECT_NEAR(static_cast<double>(ability.phase_ns()), 1.5 * phase_ns, 10.0);
}

TEST(Ability, WhatNoFactorExplainsIsThePhases) {
    Ability ability(measured);
    ability.learn(0.1, 10'000'000, 5);
    EXPECT_NEAR(static_cast<double>(ability.weight_bytes_per_s()), 0.5e9, 10.0);
    EXPECT_NEAR(static_cast<double>(ability.phase_ns()), 16e6, 1e3);
}

TEST(Ability, ARehearsalTellsHowMuchOfTheTimeItComputes) {
    Ability ability(measured);
    EXPECT_TRUE(ability.learns_from_passes());
    ability.learn(Rehearsed{.token_s = 0.015, .share_permille = 500}, 10'000'000, 5);
    EXPECT_NEAR(seconds(ability, 1e7, 5), 0.015, 1e-5);
    EXPECT_EQ(ability.share_permille(), 500U);
    EXPECT_FALSE(ability.learns_from_passes());
    ability.learn(Rehearsed{.token_s = 0.015, .share_permille = 1000}, 10'000'000, 5);
    EXPECT_TRUE(ability.learns_from_passes());
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
