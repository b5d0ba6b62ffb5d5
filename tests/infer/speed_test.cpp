#include "infer/speed.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

namespace chaos::infer {
namespace {

TEST(Speed, AQuotaIsToldFromOthersWhoCompute) {
    EXPECT_EQ(share_permille(1.0, 1.0, 0.5), 1000U);  // nobody stands still
    EXPECT_EQ(share_permille(1.0, 1.25, 0.5), 800U);  // not for as long as it might
    EXPECT_EQ(share_permille(1.0, 2.0, 0.5), 500U);
    EXPECT_EQ(share_permille(1.0, 4.0, 0.5), 500U);    // others compute here, too
    EXPECT_EQ(share_permille(1.0, 4.0, 1.0), 1000U);   // and there is no quota
    EXPECT_EQ(share_permille(0.0, 0.0, 1e-9), 1000U);  // no time has passed
}

TEST(Speed, MoreThreadsThanCoresStandStillForLonger) {
    EXPECT_LE(allowed_share(1), 1.0);
    EXPECT_NEAR(allowed_share(4096), allowed_share(8192) * 2.0, 1e-12);
}

TEST(Speed, IsMeasuredForEveryWidth) {
    Pool pool(1);
    for (const auto& [format, columns] : {std::pair{Format::f16, 300U}, {Format::q8_0, 320U}}) {
        const std::array tensors = {PackedTensor{.name = "a", .shape = {format, 64, columns}}};
        const auto speed = measure_speed(tensors, pool);
        ASSERT_TRUE(speed) << speed.error().message;
        EXPECT_GT(speed->weight_bytes_per_s, 1U);
        EXPECT_GT(speed->prompt_bytes_per_s, 1U);
    }
}

}  // namespace
}  // namespace chaos::infer
