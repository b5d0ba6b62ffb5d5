#include "infer/tiles.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace chaos::infer {
namespace {

TEST(Tiles, ProductsAreTheSumsOfAllTokensAndRows) {
    if (!tiles_available()) GTEST_SKIP() << "this machine has no tile unit";
    std::mt19937_64 random(1);
    std::vector<std::int8_t> activations(tile_tokens * activation_columns);
    std::vector<std::int8_t> weights(panel_rows * scale_columns);
    for (std::int8_t& value : activations) value = static_cast<std::int8_t>(static_cast<int>(random() % 255) - 127);
    for (std::int8_t& value : weights) value = static_cast<std::int8_t>(static_cast<int>(random() % 256) - 128);
    std::vector<std::int32_t> sums(tile_tokens * panel_rows);
    {
        const Tiles tiles;
        tile_products(activations.data(), reinterpret_cast<const std::byte*>(weights.data()), sums.data());
    }
    for (std::size_t token = 0; token < tile_tokens; ++token) {
        for (std::size_t row = 0; row < panel_rows; ++row) {
            std::int32_t expected = 0;
            for (std::size_t column = 0; column < scale_columns; ++column)
                expected += activations[token * activation_columns + column] *
                            weights[(column / 4 * panel_rows + row) * 4 + column % 4];
            const std::size_t half = row / tile_lanes;
            EXPECT_EQ(sums[(half * tile_tokens + token) * tile_lanes + row % tile_lanes], expected)
                << "token " << token << ", row " << row;
        }
    }
}

}  // namespace
}  // namespace chaos::infer
