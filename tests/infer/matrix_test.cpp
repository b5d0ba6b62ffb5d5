#include "infer/matrix.h"

#include "infer/weights.h"

#include <gtest/gtest.h>

namespace chaos::infer {
namespace {

TEST(Matrix, RowsAreReadAsTheyWerePacked) {
    for (const Format format : test::all_formats) {
        std::mt19937_64 random(static_cast<std::uint64_t>(format) + 1);
        for (const std::size_t rows : {1U, 31U, 32U, 33U, 70U}) {
            for (const std::size_t columns : {32U, 96U, 288U}) {
                const test::Weights weights = test::Weights::random(format, rows, columns, random);
                std::vector<float> values(columns);
                for (std::size_t row = 0; row < rows; ++row) {
                    read_row(weights.matrix, row, values);
                    const std::vector<double> wanted = test::values_of(format, columns, weights.file_rows[row]);
                    for (std::size_t i = 0; i < columns; ++i)
                        ASSERT_EQ(values[i], static_cast<float>(wanted[i]))
                            << name_of(format) << " " << row << " " << i;
                }
            }
        }
    }
}

TEST(Matrix, PackedBytesAreWholePanels) {
    EXPECT_EQ(packed_bytes(Format::q4_0, 33, 64), 2U * 64 * 18);
    EXPECT_EQ(packed_bytes(Format::q8_0, 64, 64), 2U * 64 * 34);
    EXPECT_EQ(packed_bytes(Format::f16, 1, 7), 32U * 7 * 2);
    EXPECT_FALSE(fits(Format::q4_0, 48));
    EXPECT_TRUE(fits(Format::bf16, 48));
}

}  // namespace
}  // namespace chaos::infer
