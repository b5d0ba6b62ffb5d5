#include "sim/queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace chaos::sim {
namespace {

TEST(Queue, GivesTheEarliestFirstAndEqualsInTheOrderTheyCame) {
    Queue<int> queue;
    queue.push(5, 50);
    queue.push(3, 30);
    queue.push(5, 51);
    queue.push(1, 10);
    queue.push(5, 52);
    std::vector<int> order;
    while (!queue.empty()) order.push_back(queue.pop());
    EXPECT_EQ(order, (std::vector{10, 30, 50, 51, 52}));
}

TEST(Queue, UsesPlacesAgain) {
    Queue<int> queue;
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 100; ++i) queue.push(100 - i, i);
        for (int i = 99; i >= 0; --i) EXPECT_EQ(queue.pop(), i);
    }
}

}  // namespace
}  // namespace chaos::sim
