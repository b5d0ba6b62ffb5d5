#include "infer/matrix.h"

#include <gtest/gtest.h>

namespace chaos::infer {
namespace {

TEST(Matrix, PackedBytesAreWholePanels) {
    EXPECT_EQ(packed_bytes(Format::q4_0, 33, 64), 2U * 64 * 18);
    EXPECT_EQ(packed_bytes(Format::q8_0, 64, 64), 2U * 64 * 34);
    EXPECT_EQ(packed_bytes(Format::f16, 1, 7), 32U * 7 * 2);
    EXPECT_FALSE(fits(Format::q4_0, 48));
    EXPECT_TRUE(fits(Format::bf16, 48));
}

}  // namespace
}  // namespace chaos::infer
