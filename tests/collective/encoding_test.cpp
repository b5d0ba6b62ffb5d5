#include "collective/encoding.h"

#include "base/random.h"
#include "plan/seed.h"

#include <gtest/gtest.h>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace chaos::collective {
namespace {

constexpr Encoding all_encodings[] = {Encoding::fp32, Encoding::fp16, Encoding::bf16, Encoding::int8};
constexpr float infinity = std::numeric_limits<float>::infinity();

std::uint32_t bits_of(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

std::vector<std::byte> encoded(Encoding encoding, const std::vector<float>& floats, Path path = Path::best) {
    std::vector<std::byte> bytes(encoded_bytes(encoding, floats.size()));
    encode(encoding, floats, bytes, path);
    return bytes;
}

std::vector<float> decoded(Encoding encoding, const std::vector<std::byte>& bytes, std::size_t floats,
                           Path path = Path::best) {
    std::vector<float> values(floats);
    decode(encoding, bytes, values, path);
    return values;
}

std::vector<std::uint16_t> halves_of(Encoding encoding, const std::vector<float>& floats) {
    const std::vector<std::byte> bytes = encoded(encoding, floats);
    std::vector<std::uint16_t> halves(floats.size());
    std::memcpy(halves.data(), bytes.data(), bytes.size());
    return halves;
}

std::vector<float> floats_of(Encoding encoding, const std::vector<std::uint16_t>& halves) {
    std::vector<std::byte> bytes(halves.size() * 2);
    std::memcpy(bytes.data(), halves.data(), bytes.size());
    return decoded(encoding, bytes, halves.size());
}

std::vector<std::uint16_t> every_half() {
    std::vector<std::uint16_t> halves(65536);
    for (std::uint32_t i = 0; i < 65536; ++i) halves[i] = static_cast<std::uint16_t>(i);
    return halves;
}

// What the formats mean, by their definitions.
double meaning(std::uint32_t half, int exponent_bits) {
    const int fraction_bits = 15 - exponent_bits;
    const int exponent = static_cast<int>(half >> fraction_bits) & ((1 << exponent_bits) - 1);
    const int fraction = static_cast<int>(half) & ((1 << fraction_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double size = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                      : std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return (half & 0x8000) != 0 ? -size : size;
}

class SixteenBits : public ::testing::TestWithParam<Encoding> {
protected:
    [[nodiscard]] int exponent_bits() const { return GetParam() == Encoding::fp16 ? 5 : 8; }
    [[nodiscard]] std::uint32_t infinity_half() const { return GetParam() == Encoding::fp16 ? 0x7c00 : 0x7f80; }
};

TEST_P(SixteenBits, EveryValueMeansWhatTheFormatSaysAndComesBack) {
    const std::vector<float> floats = floats_of(GetParam(), every_half());
    const std::vector<std::uint16_t> back = halves_of(GetParam(), floats);
    for (std::uint32_t half = 0; half < 65536; ++half) {
        const std::uint32_t magnitude = half & 0x7fff;
        if (magnitude > infinity_half()) {
            ASSERT_TRUE(std::isnan(floats[half])) << half;
            const std::uint32_t quiet = GetParam() == Encoding::fp16 ? 0x7e00 : 0x7fc0;
            ASSERT_EQ(back[half], (half & 0x8000) | quiet);
            continue;
        }
        if (magnitude == infinity_half()) {
            ASSERT_EQ(floats[half], half == magnitude ? infinity : -infinity);
        } else {
            ASSERT_EQ(static_cast<double>(floats[half]), meaning(half, exponent_bits())) << half;
        }
        ASSERT_EQ(back[half], half);
    }
}

TEST_P(SixteenBits, RoundsToTheNearestTiesToEven) {
    std::vector<float> floats;
    std::vector<std::uint32_t> expected;
    for (std::uint32_t half = 0; half < infinity_half(); ++half) {
        // Beyond the largest lies what the next exponent would hold; from the middle on that is infinity.
        const double low = meaning(half, exponent_bits());
        const double middle = low + (half + 1 == infinity_half() ? low - meaning(half - 1, exponent_bits())
                                                                 : meaning(half + 1, exponent_bits()) - low) /
                                        2;
        const auto tie = static_cast<float>(middle);
        if (static_cast<double>(tie) != middle) {
            ASSERT_EQ(GetParam(), Encoding::bf16);  // below the smallest float
            continue;
        }
        for (const auto& [value, nearest] : {std::pair{std::nextafter(tie, 0.0F), half},
                                             {tie, half + (half & 1)},
                                             {std::nextafter(tie, infinity), half + 1}}) {
            floats.push_back(value);
            expected.push_back(nearest);
            floats.push_back(-value);
            expected.push_back(nearest | 0x8000);
        }
    }
    const std::vector<std::uint16_t> halves = halves_of(GetParam(), floats);
    for (std::size_t i = 0; i < floats.size(); ++i) ASSERT_EQ(halves[i], expected[i]) << floats[i];
}

INSTANTIATE_TEST_SUITE_P(Formats, SixteenBits, ::testing::Values(Encoding::fp16, Encoding::bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(Encoding, SizesAreWhatTheHeaderSays) {
    EXPECT_EQ(encoded_bytes(Encoding::fp32, 7), 28U);
    EXPECT_EQ(encoded_bytes(Encoding::bf16, 7), 14U);
    EXPECT_EQ(encoded_bytes(Encoding::int8, 0), 0U);
    EXPECT_EQ(encoded_bytes(Encoding::int8, 1), 5U);
    EXPECT_EQ(encoded_bytes(Encoding::int8, 129), 137U);
    const std::uint64_t million = 1 << 20;
    EXPECT_GE(static_cast<double>(encoded_bytes(Encoding::fp32, million)),
              3.85 * static_cast<double>(encoded_bytes(Encoding::int8, million)));
}

TEST(Encoding, Int8IsWithinHalfAScaleOfTheValue) {
    const std::uint64_t seed = plan::test::fresh_seed();
    for (const int exponent : {-90, -20, 0, 20, 110}) {
        std::vector<float> floats(1000);
        for (std::size_t i = 0; i < floats.size(); ++i)
            floats[i] = std::ldexp(random_normal(seed, static_cast<std::uint64_t>(exponent) + 100, i), exponent);
        const std::vector<float> back = decoded(Encoding::int8, encoded(Encoding::int8, floats), floats.size());
        for (std::size_t begin = 0; begin < floats.size(); begin += encoding_block_floats) {
            const std::size_t end = std::min<std::size_t>(begin + encoding_block_floats, floats.size());
            float largest = 0.0F;
            for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(floats[i]));
            for (std::size_t i = begin; i < end; ++i)
                ASSERT_LE(std::abs(floats[i] - back[i]), largest / 127.0F * 0.5001F) << i;
        }
    }
}

TEST(Encoding, Int8KeepsWhatItCanSayExactly) {
    std::vector<float> floats(255);
    for (int i = 0; i < 255; ++i) floats[static_cast<std::size_t>(i)] = static_cast<float>(i - 127);
    floats[130] = 127.0F;
    EXPECT_EQ(decoded(Encoding::int8, encoded(Encoding::int8, floats), 255), floats);
    const std::vector<float> tiny(200, 0x1p-120F);
    EXPECT_EQ(decoded(Encoding::int8, encoded(Encoding::int8, tiny), 200), std::vector<float>(200));
    const std::vector<float> huge(3, std::numeric_limits<float>::max());
    const std::vector<float> huge_again = decoded(Encoding::int8, encoded(Encoding::int8, huge), 3);
    EXPECT_GE(huge_again[0], std::numeric_limits<float>::max() * 0.9999F);
}

TEST(Encoding, Int8BlockWithASickValueIsNanAsAWhole) {
    for (const float sick : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
        std::vector<float> floats(300, 1.0F);
        floats[130] = sick;
        const std::vector<float> back = decoded(Encoding::int8, encoded(Encoding::int8, floats), 300);
        for (std::size_t i = 0; i < 300; ++i) {
            if (i >= 128 && i < 256) {
                ASSERT_EQ(bits_of(back[i]), 0x7fc00000U);
            } else {
                ASSERT_EQ(back[i], 1.0F);
            }
        }
    }
}

TEST(Encoding, Int8ScaleThatIsNotFiniteDecodesAsTheSameNanEverywhere) {
    for (const std::uint32_t scale : {0x7f800000U, 0xff800000U, 0x7f800001U, 0xffffffffU}) {
        std::vector<std::byte> bytes(encoded_bytes(Encoding::int8, 3));
        std::memcpy(bytes.data(), &scale, 4);
        bytes[5] = std::byte{0x80};
        for (const float value : decoded(Encoding::int8, bytes, 3)) EXPECT_EQ(bits_of(value), 0x7fc00000U);
    }
}

TEST(Encoding, EveryInstructionSetGivesTheSameBits) {
    std::mt19937_64 random(plan::test::fresh_seed());
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{129}, std::size_t{5003}}) {
        std::vector<float> floats(n);
        std::vector<float> base(n);
        for (std::size_t i = 0; i < n; ++i) {
            // Any bits in one part, gradients in the other.
            floats[i] = i % 256 < 128 ? std::bit_cast<float>(static_cast<std::uint32_t>(random()))
                                      : random_normal(random(), 1, i) * 0x1p-10F;
            base[i] = random_normal(random(), 2, i);
        }
        for (const Encoding encoding : all_encodings) {
            const std::vector<std::byte> bytes = encoded(encoding, floats, Path::scalar);
            const std::vector<float> back = decoded(encoding, bytes, n, Path::scalar);
            std::vector<float> sum(n);
            add_decoded(encoding, base, bytes, sum, Path::scalar);
            for (const Path path : {Path::best, Path::avx2, Path::avx512}) {
                if (!path_available(path)) continue;
                ASSERT_EQ(encoded(encoding, floats, path), bytes) << name_of(encoding) << ' ' << n;
                const std::vector<float> again = decoded(encoding, bytes, n, path);
                std::vector<float> sum_again = base;
                add_decoded(encoding, sum_again, bytes, sum_again, path);
                for (std::size_t i = 0; i < n; ++i) {
                    ASSERT_EQ(bits_of(again[i]), bits_of(back[i])) << name_of(encoding) << ' ' << i;
                    ASSERT_EQ(bits_of(sum_again[i]), bits_of(sum[i])) << name_of(encoding) << ' ' << i;
                    if (!std::isnan(sum[i])) {
                        ASSERT_EQ(sum[i], base[i] + back[i]);
                    }
                }
            }
        }
    }
}

TEST(Encoding, PiecesOfWholeBlocksEncodeAsTheWholeDoes) {
    std::vector<float> floats(700);
    for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = random_normal(3, 4, i);
    for (const Encoding encoding : all_encodings) {
        std::vector<std::byte> pieces(encoded_bytes(encoding, floats.size()));
        for (std::size_t begin = 0; begin < floats.size(); begin += 256) {
            const auto piece = std::span<const float>(floats).subspan(begin, std::min<std::size_t>(256, 700 - begin));
            encode(encoding, piece,
                   std::span(pieces).subspan(encoded_bytes(encoding, begin), encoded_bytes(encoding, piece.size())));
        }
        EXPECT_EQ(pieces, encoded(encoding, floats)) << name_of(encoding);
    }
}

TEST(Encoding, WhatIsLeftOutIsTheDifferenceOrNothing) {
    const std::vector<float> sum{1.5F, infinity, std::numeric_limits<float>::quiet_NaN(), 2.0F};
    const std::vector<float> said{1.0F, infinity, 0.0F, infinity};
    std::vector<float> left(4, 9.0F);
    left_out(sum, said, left);
    EXPECT_EQ(left, (std::vector<float>{0.5F, 0.0F, 0.0F, 0.0F}));
}

}  // namespace
}  // namespace chaos::collective
