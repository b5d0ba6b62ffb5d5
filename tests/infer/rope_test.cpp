#include "infer/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace chaos::infer {
namespace {

TEST(Rope, PowersAreThoseOfLibm) {
    for (const double base : {2.0, 10'000.0, 500'000.0, 1e6, 0.37}) {
        for (double exponent = -1.0; exponent <= 1.0; exponent += 0.01) {
            const double wanted = std::pow(base, exponent);
            EXPECT_NEAR(power(base, exponent) / wanted, 1.0, 1e-14) << base << " ^ " << exponent;
        }
    }
}

TEST(Rope, SinesAndCosinesAreThoseOfLibmAtEveryPosition) {
    const std::vector<float> frequencies = inverse_frequencies(10'000.0, 128);
    ASSERT_EQ(frequencies.size(), 64U);
    EXPECT_EQ(frequencies[0], 1.0F);
    std::vector<float> cosines(64);
    std::vector<float> sines(64);
    for (std::size_t position = 0; position < (1U << 20); position = position < 100 ? position + 1 : position * 3 / 2) {
        angles_of(position, frequencies, cosines, sines);
        for (std::size_t i = 0; i < 64; ++i) {
            const auto angle = static_cast<double>(static_cast<float>(position) * frequencies[i]);
            EXPECT_NEAR(static_cast<double>(cosines[i]), std::cos(angle), 1e-7) << position << " " << i;
            EXPECT_NEAR(static_cast<double>(sines[i]), std::sin(angle), 1e-7) << position << " " << i;
        }
    }
}

}  // namespace
}  // namespace chaos::infer
