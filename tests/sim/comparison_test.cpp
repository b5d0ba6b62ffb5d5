#include "sim/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::sim {
namespace {

using ::testing::HasSubstr;

TEST(Comparison, IsTheMedianOfItsSeeds) {
    const Model model = image_models()[0];
    const ComparedSetting three = compare_setting({.members = 4}, model, 0, 3);
    std::vector<Time> delays;
    for (std::uint64_t seed = 0; seed < 3; ++seed)
        delays.push_back(scale_out(Strategy::elan, draw_setting({.seed = seed, .members = 4}, model)).delay);
    std::sort(delays.begin(), delays.end());
    EXPECT_EQ(three.calm[1].delay, delays[1]);
    EXPECT_EQ(three.struck.size(), all_strategies.size());
}

TEST(Comparison, PageNamesItsCommandAndAllStrategies) {
    const std::string page = page_of(compare(7, 8));
    EXPECT_THAT(page, HasSubstr("chaos sim --compare --seeds 7..8"));
    for (const Strategy strategy : all_strategies) EXPECT_THAT(page, HasSubstr(std::string(title_of(strategy)) + " |"));
}

}  // namespace
}  // namespace chaos::sim
