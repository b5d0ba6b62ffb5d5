#include "node/why.h"

#include <gtest/gtest.h>

namespace chaos::node {
namespace {

using elastic::StepWait;
using std::chrono::milliseconds;

TEST(Why, AStepSaysWhomItWaitsForAndSinceWhen) {
    const auto now = std::chrono::steady_clock::now();
    const cluster::NodeId a{.high = 0x4711ab01ULL << 32, .low = 1};
    const cluster::NodeId b{.high = 0x93aa0177ULL << 32, .low = 2};
    const auto words = [&](StepWait::For what, milliseconds since, std::vector<cluster::NodeId> whom) {
        return words_of({.what = what, .step = 12, .whom = std::move(whom), .since = now - since}, std::nullopt, now);
    };
    using For = StepWait::For;
    EXPECT_EQ(words(For::computing, milliseconds(0), {}), "trains step 12: computes");
    EXPECT_EQ(words(For::sums, milliseconds(3200), {a, b}),
              "trains step 12: waits for the contribution of 4711ab01, 93aa0177 or of those behind, for 3.2 s");
    EXPECT_EQ(words(For::results, milliseconds(20), {a}), "trains step 12: waits for the result by way of 4711ab01");
    EXPECT_EQ(words(For::results, milliseconds(20), {}), "trains step 12");
    EXPECT_EQ(words(For::connections, milliseconds(45'000), {b}),
              "trains step 12: waits for a connection with 93aa0177, for 45 s");
    EXPECT_EQ(words(For::sums, milliseconds(180'000), {a, a, a, a, b, b}),
              "trains step 12: waits for the contribution of 4711ab01, 4711ab01, 4711ab01, 4711ab01 and 2 more or of "
              "those behind, for 3 min");
    const elastic::Donor::Pause pause{.newcomer = b, .until = now + milliseconds(20'000), .asked_at = now};
    EXPECT_EQ(words_of({.what = For::pause, .step = 12, .whom = {}, .since = now}, pause, now),
              "begins step 12 when newcomer 93aa0177 has the state, at the latest in 20 s");
    EXPECT_EQ(words_of({.what = For::taking,
                        .step = 12,
                        .whom = {a},
                        .since = now - milliseconds(500),
                        .bytes = 1'500'000,
                        .of_bytes = 4'000'000},
                       std::nullopt, now),
              "takes the result of step 12 from 4711ab01: 1.5 MB of 4.0 MB, for 0.5 s");
}

}  // namespace
}  // namespace chaos::node
