#include "sim/clock.h"

#include <gtest/gtest.h>

namespace chaos::sim {
namespace {

TEST(Clock, FindsWhenItShowsATime) {
    for (const std::int64_t drift : {-1000, -50, 0, 50, 1000}) {
        const Clock clock(3 * second, 700 * second, drift);
        for (const Time ahead : {Time{1}, 250 * millisecond, 10 * second, 3600 * second}) {
            const Time reading = clock.read(5 * second) + ahead;
            const Time at = clock.when(reading);
            EXPECT_GE(clock.read(at), reading) << drift << " ppm, " << ahead << " ns";
            EXPECT_LT(clock.read(at - 2 * microsecond), reading) << drift << " ppm, " << ahead << " ns";
        }
    }
}

TEST(Clock, NeverJumpsWhenItsSpeedChanges) {
    Clock clock(0, 0, 500);
    const Time before = clock.read(10 * second);
    clock.change_drift(10 * second, -500);
    EXPECT_EQ(clock.read(10 * second), before);
    EXPECT_LT(clock.read(20 * second), before + 10 * second);
}

}  // namespace
}  // namespace chaos::sim
