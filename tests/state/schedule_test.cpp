#include "state/schedule.h"

#include <gtest/gtest.h>
#include <bit>
#include <cmath>

namespace chaos::state {
namespace {

TEST(Schedule, CosineAgreesWithLibm) {
    for (int i = 0; i <= 1000; ++i) {
        const double x = i / 1000.0;
        EXPECT_NEAR(cosine_of_pi(x), std::cos(3.14159265358979323846 * x), 1e-15) << x;
    }
}

TEST(Schedule, BitsAreTheSameOnEveryMachine) {
    // Written down once: libm would give other last bits on some machines, this code must not.
    EXPECT_EQ(std::bit_cast<std::uint64_t>(cosine_of_pi(0.1)), 0x3fee6f0e134454ffU);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(cosine_of_pi(1.0 / 3.0)), 0x3fe0000000000000U);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(power(0.999, 12345)), 0x3ed22391fb9458b0U);
}

TEST(Schedule, PowerAgreesWithLibm) {
    for (const std::uint64_t n : {0ULL, 1ULL, 2ULL, 17ULL, 1000ULL})
        EXPECT_NEAR(power(0.9, n), std::pow(0.9, static_cast<double>(n)), 1e-15);
}

TEST(Schedule, WarmsUpThenFollowsTheCosine) {
    run::Schedule schedule;
    schedule.kind = "cosine";
    schedule.warmup_steps = 4;
    schedule.final_ratio = 0.1;
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 2.0, 0, 104), 0.5);
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 2.0, 3, 104), 2.0);
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 2.0, 4, 104), 2.0);
    EXPECT_NEAR(learning_rate(schedule, 2.0, 103, 104), 0.2, 1e-12);
    for (std::uint64_t step = 5; step < 104; ++step)
        EXPECT_LT(learning_rate(schedule, 2.0, step, 104), learning_rate(schedule, 2.0, step - 1, 104));
}

TEST(Schedule, ConstantStaysConstant) {
    run::Schedule schedule;
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 0.3, 0, 10), 0.3);
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 0.3, 12345, 10), 0.3);
}

}  // namespace
}  // namespace chaos::state
