#include "base/random.h"

#include <gtest/gtest.h>

namespace chaos {
namespace {

TEST(Random, KnownBits) {
    // Runs and their initial weights depend on these: a change here is a change of every run.
    EXPECT_EQ(random_bits(1, 2, 3), random_bits(1, 2, 3));
    static_assert(random_bits(0, 0, 0) == 0x238275bc38fcbe91U);
    static_assert(random_unit(~0ULL) < 1.0F);
}

TEST(Random, InputsDoNotCommute) {
    EXPECT_NE(random_bits(1, 2, 3), random_bits(2, 1, 3));
    EXPECT_NE(random_bits(1, 2, 3), random_bits(1, 3, 2));
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
    constexpr int draws = 100000;
    double sum = 0.0;
    double squares = 0.0;
    for (std::uint64_t i = 0; i < draws; ++i) {
        const double value = random_normal(7, 1, i);
        sum += value;
        squares += value * value;
    }
    EXPECT_NEAR(sum / draws, 0.0, 0.02);
    EXPECT_NEAR(squares / draws, 1.0, 0.02);
}

}  // namespace
}  // namespace chaos
