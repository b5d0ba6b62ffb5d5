#include "data/held_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace chaos::data {
namespace {

using testing::HasSubstr;

std::string error_of(double held_out, std::uint64_t samples) {
    const auto count = held_out_of(held_out, samples);
    return count.ok() ? "no error" : count.error().message;
}

TEST(HeldOut, SharesAreRoundedToTheNearest) {
    EXPECT_EQ(*held_out_of(0.1, 10), 1U);
    EXPECT_EQ(*held_out_of(0.1, 60000), 6000U);
    EXPECT_EQ(*held_out_of(0.29, 100), 29U);
    EXPECT_EQ(*held_out_of(0.5, 3), 2U);
    EXPECT_EQ(share_of(0.1, 1115394), 111539U);
}

TEST(HeldOut, NumbersAreTakenAsTheyAre) {
    EXPECT_EQ(*held_out_of(0, 10), 0U);
    EXPECT_EQ(*held_out_of(1, 10), 1U);
    EXPECT_EQ(*held_out_of(9, 10), 9U);
}

TEST(HeldOut, SomethingIsHeldOutAndSomethingIsLeft) {
    EXPECT_EQ(error_of(0.1, 4), "data.held_out = 0.1 of 4 samples is less than one sample");
    EXPECT_EQ(error_of(0.99, 4), "data.held_out = 0.99 of 4 samples leaves nothing to train on");
    EXPECT_EQ(error_of(1, 1), "data.held_out = 1 of 1 sample leaves nothing to train on");
    EXPECT_THAT(error_of(10, 10), HasSubstr("leaves nothing"));
    EXPECT_THAT(error_of(11, 10), HasSubstr("leaves nothing"));
    EXPECT_THAT(error_of(1e300, 10), HasSubstr("leaves nothing"));
    EXPECT_THAT(error_of(std::numeric_limits<double>::infinity(), 10), HasSubstr("leaves nothing"));
}

TEST(HeldOut, NonsenseIsRefused) {
    EXPECT_EQ(error_of(-0.5, 10), "data.held_out = -0.5 must be 0 or more");
    EXPECT_THAT(error_of(std::numeric_limits<double>::quiet_NaN(), 10), HasSubstr("must be 0 or more"));
    EXPECT_EQ(error_of(2.5, 10), "data.held_out = 2.5 must be a share below 1 or a whole number of samples");
}

}  // namespace
}  // namespace chaos::data
