#include "sim/network.h"

#include <gtest/gtest.h>

namespace chaos::sim {
namespace {

TEST(Network, SmallMessagesStayInOrder) {
    Network network(7, 2, {.jitter = 5 * millisecond});
    const std::uint32_t path = network.path(0, 1);
    Time last = 0;
    for (Time now = 0; now < second; now += millisecond) {
        const Time at = network.send(path, now).first;
        EXPECT_GT(at, last);
        EXPECT_GE(at, now + network.at(path).delay);
        last = at;
    }
}

TEST(Network, BulkTakesItsBytesOverTheRateOneAfterTheOther) {
    Network network(7, 2, {.rate_min = 1'000'000, .rate_max = 1'000'000});
    const std::uint32_t path = network.path(0, 1);
    const Time delay = network.at(path).delay;
    EXPECT_EQ(network.send_bulk(path, 500'000, 0), second / 2 + delay);
    EXPECT_EQ(network.send_bulk(path, 500'000, 0), second + delay);
}

TEST(Network, CutsAndPartitionsDropEverythingUntilTheyHeal) {
    Network network(7, 4, {});
    const std::uint32_t there = network.path(0, 1);
    const std::uint32_t back = network.path(1, 0);
    network.cut(0, 1);
    EXPECT_LT(network.send(there, 0).first, 0);
    EXPECT_GT(network.send(back, 0).first, 0);
    network.mend(0, 1);
    EXPECT_GT(network.send(there, 0).first, 0);
    network.divide({0, 1, 0, 1});
    EXPECT_FALSE(network.passes(0, 1));
    EXPECT_TRUE(network.passes(0, 2));
    network.heal_all();
    EXPECT_TRUE(network.passes(0, 1));
}

TEST(Network, ABadPathLosesDoublesAndReorders) {
    Network network(7, 2, {});
    network.worsen(200'000, 200'000, 200'000);
    const std::uint32_t path = network.path(0, 1);
    int lost = 0;
    int doubled = 0;
    int overtaken = 0;
    Time last = 0;
    for (Time now = 0; now < 1000 * 100 * microsecond; now += 100 * microsecond) {
        const Arrivals arrivals = network.send(path, now);
        lost += arrivals.first < 0 ? 1 : 0;
        doubled += arrivals.second >= 0 ? 1 : 0;
        overtaken += arrivals.first >= 0 && arrivals.first < last ? 1 : 0;
        last = std::max(last, arrivals.first);
    }
    EXPECT_NEAR(lost, 200, 60);
    EXPECT_NEAR(doubled, 200, 60);
    EXPECT_GT(overtaken, 50);
}

}  // namespace
}  // namespace chaos::sim
