#include "elastic/offences.h"

#include <gtest/gtest.h>

namespace chaos::elastic {
namespace {

using cluster::NodeId;

constexpr NodeId one{.high = 1, .low = 1};
constexpr NodeId other{.high = 2, .low = 1};

std::vector<NodeId> add(Offences& offences, std::uint64_t step, const std::vector<NodeId>& offenders,
                        std::size_t members = 4) {
    return offences.add(step, offenders, members);
}

TEST(Offences, TheThirdOfAHundredStepsIsOneTooMany) {
    Offences offences;
    EXPECT_TRUE(add(offences, 7, {one}).empty());
    EXPECT_TRUE(add(offences, 8, {}).empty());
    EXPECT_TRUE(add(offences, 60, {one}).empty());
    EXPECT_EQ(add(offences, 106, {one}), std::vector{one});
    EXPECT_EQ(add(offences, 107, {one}), std::vector{one});  // as long as it is there
    EXPECT_TRUE(add(offences, 108, {}).empty());
}

TEST(Offences, OldOnesAreForgotten) {
    Offences offences;
    EXPECT_TRUE(add(offences, 7, {one}).empty());
    EXPECT_TRUE(add(offences, 60, {one}).empty());
    EXPECT_TRUE(add(offences, 107, {one}).empty());
    EXPECT_TRUE(add(offences, 160, {one}).empty());
}

TEST(Offences, TwoBrokenMachinesOfManyAreFound) {
    Offences offences;
    for (std::uint64_t step = 0; step < 4; ++step)
        EXPECT_TRUE(add(offences, step, {step % 2 == 0 ? other : one}).empty());
    EXPECT_EQ(add(offences, 4, {one, other}), (std::vector{one, other}));
}

TEST(Offences, WhereMostOffendInTurnNobodyIsToBlame) {
    Offences offences;
    for (std::uint64_t step = 0; step < 50; ++step)
        EXPECT_TRUE(add(offences, step, {step % 2 == 0 ? other : one}, 3).empty()) << step;
}

}  // namespace
}  // namespace chaos::elastic
