#include "cli/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::cli {
namespace {

using ::testing::HasSubstr;

TEST(Plot, ShowsRangeAndAxis) {
    std::vector<double> values;
    for (int i = 0; i < 200; ++i) values.push_back(5.0 - 0.02 * i);
    const std::string text = plot(values, 101, 40, 5);
    EXPECT_THAT(text, HasSubstr("4.9"));
    EXPECT_THAT(text, HasSubstr("1.0"));
    EXPECT_THAT(text, HasSubstr("101"));
    EXPECT_THAT(text, HasSubstr("300\n"));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7);
}

TEST(Plot, OneValueOrNone) {
    EXPECT_EQ(plot({}, 1), "");
    const std::vector<double> one = {2.0};
    EXPECT_THAT(plot(one, 1), HasSubstr("2.000"));
}

TEST(Plot, DrawsOnePointPerColumn) {
    const std::vector<double> values = {1.0, 2.0, 3.0};
    const std::string text = plot(values, 1, 40, 4);
    std::size_t points = 0;
    for (const char* block : {"\u2580", "\u2584"})
        for (std::size_t at = text.find(block); at != std::string::npos; at = text.find(block, at + 1)) ++points;
    EXPECT_EQ(points, 3U);
}

}  // namespace
}  // namespace chaos::cli
