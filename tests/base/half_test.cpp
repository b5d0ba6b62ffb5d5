#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace chaos {
namespace {

TEST(Half, EveryF16GoesToItsValueAndBack) {
    for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        const float value = f16_to_float(half);
        const int exponent = static_cast<int>((bits >> 10) & 0x1fU);
        const double fraction = static_cast<double>(bits & 0x3ffU);
        if (exponent == 31) {
            EXPECT_EQ(std::isnan(value), fraction != 0.0);
            EXPECT_EQ(std::isinf(value), fraction == 0.0);
        } else {
            const double magnitude =
                exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, exponent - 25);
            EXPECT_EQ(static_cast<double>(value), (bits & 0x8000U) != 0 ? -magnitude : magnitude) << bits;
        }
        if (!std::isnan(value)) {
            EXPECT_EQ(float_to_f16(value), half) << bits;
        }
    }
}

TEST(Half, BetweenTwoF16TheNearerIsTakenAndTiesGoToEven) {
    for (std::uint32_t bits = 0; bits < 0x7bffU; ++bits) {
        const float low = f16_to_float(static_cast<std::uint16_t>(bits));
        const float high = f16_to_float(static_cast<std::uint16_t>(bits + 1));
        const float middle = (low + high) / 2.0F;
        EXPECT_EQ(float_to_f16(middle), bits + (bits & 1U)) << bits;
        EXPECT_EQ(float_to_f16(std::nextafter(middle, low)), bits) << bits;
        EXPECT_EQ(float_to_f16(std::nextafter(middle, high)), bits + 1) << bits;
    }
    EXPECT_EQ(float_to_f16(65519.996F), 0x7bffU);
    EXPECT_EQ(float_to_f16(65520.0F), 0x7c00U);
    EXPECT_EQ(float_to_f16(-std::numeric_limits<float>::infinity()), 0xfc00U);
    EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Half, Bf16IsTheUpperHalfOfAFloat) {
    EXPECT_EQ(bf16_to_float(0x3f80U), 1.0F);
    EXPECT_EQ(bf16_to_float(0xff80U), -std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(bf16_to_float(0x7f81U)));
}

}  // namespace
}  // namespace chaos
