#include "net/monitor.h"

#include <gtest/gtest.h>

namespace chaos::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr Clock::time_point some_time{std::chrono::hours(1)};

// Frames of `bytes` each, one every `gap`, `count` times.
Clock::time_point feed(RateMeter& meter, Clock::time_point now, std::size_t bytes, nanoseconds gap, int count) {
    for (int i = 0; i < count; ++i) {
        meter.arrived(bytes, now, now + gap);
        now += gap;
    }
    return now;
}

TEST(RateMeter, KnowsNothingOfFewBytes) {
    RateMeter meter;
    feed(meter, some_time, 1000, milliseconds(10), 40);
    EXPECT_EQ(meter.bytes_per_s(), 0U);
}

TEST(RateMeter, TellsTheRateOfWhatComesWithoutPause) {
    RateMeter meter;
    feed(meter, some_time, 100'000, milliseconds(10), 40);  // 10 MB/s
    EXPECT_NEAR(static_cast<double>(meter.bytes_per_s()), 1e7, 1e5);
}

TEST(RateMeter, PausesSayNothing) {
    RateMeter meter;
    Clock::time_point now = some_time;
    for (int step = 0; step < 10; ++step) now = feed(meter, now, 100'000, milliseconds(10), 30) + milliseconds(700);
    EXPECT_NEAR(static_cast<double>(meter.bytes_per_s()), 1e7, 1e5);
}

TEST(RateMeter, FollowsALinkThatGetsFasterAtOnceAndASlowerOneInTime) {
    RateMeter meter;
    Clock::time_point now = feed(meter, some_time, 100'000, milliseconds(10), 40);
    now = feed(meter, now, 400'000, milliseconds(10), 40);
    EXPECT_NEAR(static_cast<double>(meter.bytes_per_s()), 4e7, 4e5);
    feed(meter, now, 100'000, milliseconds(10), 1000);
    EXPECT_NEAR(static_cast<double>(meter.bytes_per_s()), 1e7, 2e6);
}

TEST(RoundTrips, MeanSpreadAndLeast) {
    RoundTrips trips;
    for (int i = 0; i < 200; ++i) trips.add(milliseconds(i % 2 == 0 ? 8 : 12));
    EXPECT_NEAR(static_cast<double>(trips.mean().count()), 10e6, 1e6);
    EXPECT_NEAR(static_cast<double>(trips.spread().count()), 2e6, 0.5e6);
    EXPECT_EQ(trips.least(), milliseconds(8));
}

TEST(Machine, IsThere) {
    const Machine machine = measure_machine();
    EXPECT_GT(machine.cores, 0.0);
    EXPECT_GT(machine.free_memory_bytes, 0U);
    EXPECT_LE(machine.free_memory_bytes, machine.memory_bytes);
}

}  // namespace
}  // namespace chaos::net
