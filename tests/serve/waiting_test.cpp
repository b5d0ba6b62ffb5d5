#include "serve/waiting.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using chaos::serve::Waiting;

TEST(Waiting, IsFirstComeFirstServedForOneClient) {
    Waiting<int> waiting;
    for (int i = 0; i < 5; ++i) waiting.push("a", i);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(waiting.pop(), i);
    EXPECT_TRUE(waiting.empty());
}

TEST(Waiting, WhoAsksForMuchOnlyKeepsItselfWaiting) {
    Waiting<int> waiting;
    for (int i = 0; i < 100; ++i) waiting.push("greedy", i);
    waiting.push("modest", 100);
    waiting.push("other", 101);
    EXPECT_EQ(waiting.pop(), 0);
    EXPECT_EQ(waiting.pop(), 100);
    EXPECT_EQ(waiting.pop(), 101);
    EXPECT_EQ(waiting.pop(), 1);
    waiting.push("modest", 102);
    EXPECT_EQ(waiting.pop(), 102);  // one of each runs, and two of the greedy
    waiting.done("greedy");
    waiting.done("greedy");
    EXPECT_EQ(waiting.pop(), 2);
}

TEST(Waiting, ForgetsWhoLeaves) {
    Waiting<int> waiting;
    waiting.push("a", 1);
    waiting.push("a", 2);
    EXPECT_TRUE(waiting.erase(1));
    EXPECT_FALSE(waiting.erase(1));
    EXPECT_EQ(waiting.pop(), 2);
}

}  // namespace
