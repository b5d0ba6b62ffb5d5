#include "plan/plan_cache.h"

#include <gtest/gtest.h>
#include <string>

namespace chaos::plan {
namespace {

TEST(PlanCache, ComputesEachPlanOnce) {
    PlanCache<int, std::string> cache(4);
    int computed = 0;
    const auto ask = [&](const Digest& view, int parameter) {
        return *cache.get(view, parameter, [&] { return "plan " + std::to_string(++computed); });
    };
    const Digest view = sha256("a view");
    EXPECT_EQ(ask(view, 1), "plan 1");
    EXPECT_EQ(ask(view, 1), "plan 1");
    EXPECT_EQ(ask(view, 2), "plan 2");
    EXPECT_EQ(ask(sha256("another"), 1), "plan 3");
    EXPECT_EQ(ask(view, 1), "plan 1");
    EXPECT_EQ(computed, 3);
}

TEST(PlanCache, ForgetsWhatWasAskedForLongestAgo) {
    PlanCache<int, int> cache(2);
    int computed = 0;
    const Digest view{};
    const auto ask = [&](int parameter) { return cache.get(view, parameter, [&] { return ++computed; }); };
    const auto first = ask(1);
    (void)ask(2);
    (void)ask(1);
    (void)ask(3);  // 2 makes room
    EXPECT_EQ(cache.size(), 2U);
    EXPECT_EQ(*ask(1), 1);
    EXPECT_EQ(*ask(2), 4);
    EXPECT_EQ(*first, 1);
}

}  // namespace
}  // namespace chaos::plan
