#include "net/limited_lines.h"

#include <gtest/gtest.h>

namespace chaos::net {
namespace {

TEST(LimitedLines, SayHowManyWereLeftOut) {
    Allowance::Clock::time_point now{};
    LimitedLines lines(now);
    std::size_t written = 0;
    for (int i = 0; i < 1000; ++i) written += lines.next("line " + std::to_string(i), now) ? 1 : 0;
    EXPECT_EQ(written, static_cast<std::size_t>(LimitedLines::at_once));
    now += std::chrono::seconds(1);
    EXPECT_EQ(lines.next("another", now), "another; 800 lines like it were left out before");
    EXPECT_EQ(lines.next("a third", now), "a third");
}

TEST(LimitedLines, SayWhatIsAsItWasOnceAMinute) {
    Allowance::Clock::time_point now{};
    LimitedLines lines(now);
    EXPECT_EQ(lines.next("nobody is there", now), "nobody is there");
    now += std::chrono::seconds(30);
    EXPECT_EQ(lines.next("nobody is there", now), std::nullopt);
    EXPECT_EQ(lines.next("somebody is there", now), "somebody is there");
    EXPECT_EQ(lines.next("nobody is there", now), std::nullopt);
    now += std::chrono::seconds(30);
    EXPECT_EQ(lines.next("nobody is there", now), "nobody is there");
}

}  // namespace
}  // namespace chaos::net
