#include "infer/activations.h"

#include "base/random.h"
#include "infer/every_target.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace chaos::infer {
namespace {

TEST(Activations, BytesAreTheNearestMultiplesOfTheScale) {
    std::mt19937_64 random(1);
    std::vector<float> values(320);
    for (float& value : values) value = random_normal(random(), 0, 0);
    Activations activations;
    activations.resize(2, 320, {.floats = true, .bytes = true});
    activations.set(1, values);
    for (std::size_t i = 0; i < 320; ++i) {
        const std::size_t block = i / activation_columns;
        const std::size_t within = i % activation_columns;
        const float scale = activations.scales(block, 1)[within / scale_columns];
        EXPECT_EQ(activations.floats(block, 1)[within], values[i]);
        EXPECT_NEAR(activations.bytes(block, 1)[within] * scale, values[i], 0.501F * scale);
    }
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < scale_columns; ++i) sum += activations.bytes(1, 1)[scale_columns + i];
    EXPECT_EQ(activations.offsets(Format::q4_0, 1, 1)[1], -8 * sum);
    EXPECT_EQ(activations.offsets(Format::q8_0, 1, 1)[1], -128 * sum);
}

TEST(Activations, EveryInstructionSetGivesTheBytesOfThePlainOne) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        std::mt19937_64 random(seed);
        std::array<float, scale_columns> values{};
        const int exponent = static_cast<int>(random() % 200) - 120;
        for (float& value : values) value = std::ldexp(random_normal(random(), 0, 0), exponent);
        // Halves of the scale are ties.
        if (seed % 3 == 0)
            for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 255) - 127) * 0.5F;
        if (seed % 10 == 0) values[random() % scale_columns] = seed % 20 == 0 ? -infinity : std::nanf("");
        std::array<std::int8_t, scale_columns> wanted{};
        const Quantized plain = portable::quantize_columns(values.data(), wanted.data());
        test::on_every_target([&](const char* target) {
            SCOPED_TRACE(::testing::Message() << target << ", seed " << seed);
            std::array<std::int8_t, scale_columns> bytes{};
            const Quantized got = quantize_columns(values.data(), bytes.data());
            EXPECT_EQ(bytes, wanted);
            EXPECT_TRUE(test::same_bits({&got.scale, 1}, {&plain.scale, 1}));
            EXPECT_EQ(got.sum, plain.sum);
        });
    }
}

}  // namespace
}  // namespace chaos::infer
