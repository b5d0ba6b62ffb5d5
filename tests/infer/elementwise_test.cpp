#include "infer/elementwise.h"

#include "base/random.h"
#include "infer/every_target.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace chaos::infer {
namespace {

std::vector<float> random_values(std::size_t count, std::mt19937_64& random, float spread = 1.0F) {
    std::vector<float> values(count);
    for (float& value : values) value = spread * random_normal(random(), 0, 0);
    return values;
}

TEST(Elementwise, TheExponentialIsNearLibms) {
    for (float x = -87.0F; x < 88.0F; x += 0.0137F)
        EXPECT_NEAR(static_cast<double>(exponential(x)) / std::exp(static_cast<double>(x)), 1.0, 1.2e-7) << x;
    EXPECT_EQ(exponential(0.0F), 1.0F);
    EXPECT_EQ(exponential(-100.0F), 0.0F);
    EXPECT_EQ(exponential(-std::numeric_limits<float>::infinity()), 0.0F);
    EXPECT_EQ(exponential(100.0F), std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(exponential(std::nanf(""))));
}

TEST(Elementwise, ResultsAreTheExactOnesButForRounding) {
    std::mt19937_64 random(1);
    for (const std::size_t count : {1U, 15U, 64U, 100U, 2048U}) {
        const std::vector<float> x = random_values(count, random);
        const std::vector<float> y = random_values(count, random);
        std::vector<float> out(count);
        double squares = 0.0;
        for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
        rms_norm(x, y, 1e-5F, out);
        for (std::size_t i = 0; i < count; ++i) {
            const double wanted = static_cast<double>(x[i]) * static_cast<double>(y[i]) /
                                  std::sqrt(squares / static_cast<double>(count) + 1e-5);
            EXPECT_NEAR(static_cast<double>(out[i]), wanted, 1e-6 * std::fabs(wanted));
        }
        silu_times(x, y, out);
        for (std::size_t i = 0; i < count; ++i) {
            const auto gate = static_cast<double>(x[i]);
            const double wanted = gate / (1.0 + std::exp(-gate)) * static_cast<double>(y[i]);
            EXPECT_NEAR(static_cast<double>(out[i]), wanted, 1e-6 * std::fabs(wanted));
        }
        out = x;
        softmax(out.data(), count);
        double sum = 0.0;
        for (const float value : x) sum += std::exp(static_cast<double>(value));
        for (std::size_t i = 0; i < count; ++i)
            EXPECT_NEAR(static_cast<double>(out[i]) * sum / std::exp(static_cast<double>(x[i])), 1.0, 1e-5);
    }
}

TEST(Elementwise, EveryInstructionSetGivesTheBitsOfThePlainOne) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        std::mt19937_64 random(seed);
        const std::size_t count = 1 + random() % 300;
        const std::vector<float> x = random_values(count, random, seed % 5 == 0 ? 60.0F : 1.0F);
        const std::vector<float> y = random_values(count, random);
        std::vector<float> normed(count);
        std::vector<float> gated(count);
        std::vector<float> soft = x;
        portable::rms_norm(x.data(), y.data(), count, 1e-5F, normed.data());
        portable::silu_times(x.data(), y.data(), count, gated.data());
        portable::softmax(soft.data(), count);
        test::on_every_target([&](const char* target) {
            SCOPED_TRACE(::testing::Message() << target << ", seed " << seed << ", " << count << " values");
            std::vector<float> out(count);
            rms_norm(x, y, 1e-5F, out);
            EXPECT_TRUE(test::same_bits(out, normed));
            silu_times(x, y, out);
            EXPECT_TRUE(test::same_bits(out, gated));
            out = x;
            softmax(out.data(), count);
            EXPECT_TRUE(test::same_bits(out, soft));
        });
    }
}

TEST(Elementwise, AHeadTurnsByItsAngles) {
    std::vector<float> head{1.0F, 2.0F, 3.0F, 4.0F};
    rotate_head(head, std::vector{0.0F, 1.0F}, std::vector{1.0F, 0.0F});
    EXPECT_EQ(head, (std::vector{-3.0F, 2.0F, 1.0F, 4.0F}));
}

}  // namespace
}  // namespace chaos::infer
