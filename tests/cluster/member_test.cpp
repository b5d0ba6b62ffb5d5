#include "cluster/member.h"

#include "cluster/village.h"

#include <gtest/gtest.h>

namespace chaos::cluster {
namespace {

bool trains(Village& village, const std::vector<unsigned>& members, Nanoseconds limit = 60 * second) {
    if (!village.until([&] { return village.settled(members); }, limit)) return false;
    const std::uint64_t reached = village.member(members[0]).applied();
    return village.until([&] { return village.advanced(members, reached + 3); }, limit);
}

TEST(Member, OneNodeTrainsAlone) {
    Village village;
    village.found(0);
    EXPECT_TRUE(village.until([&] { return village.member(0).applied() >= 5; }));
}

TEST(Member, NewcomersJoinByAnyMember) {
    Village village;
    populate(village, 3);
    village.join(3, 2);
    EXPECT_TRUE(trains(village, {0, 1, 2, 3}));
}

TEST(Member, StepsMayTakeLongWhileSomebodyIsLetIn) {
    Village village;
    populate(village, 3);
    village.step_time = 20 * second;
    village.join(3, 2);
    EXPECT_TRUE(trains(village, {0, 1, 2, 3}, 300 * second)) << village.story();
    EXPECT_FALSE(village.member(0).view()->settlement.has_value());
}

TEST(Member, ANewcomerDoesNotWaitForMoreLinksThanThereAreMembers) {
    Village village;
    village.found(0);
    village.join(1, 0);
    const Nanoseconds before = village.now;
    EXPECT_TRUE(
        village.until([&] { return village.member(0).view() && village.member(0).view()->members.size() == 2; }));
    EXPECT_LT(village.now - before, village.options.resend) << village.story();
}

TEST(Member, WhatAllSayToHaveAppliedIsStableBeforeTheNextStepCompletes) {
    Village village;
    populate(village, 3);
    ASSERT_TRUE(trains(village, {0, 1, 2}));
    EXPECT_TRUE(village.until([&] { return village.member(0).stable() == village.member(0).applied(); }));
    for (const unsigned number : {1U, 2U}) EXPECT_GE(village.member(number).applied(), village.member(0).stable());
}

TEST(Member, ALeaverGoesAndTheOthersLoseNoStep) {
    Village village;
    populate(village, 4);
    village.tell(0, LeaveCommand{});  // the founder, of all members
    EXPECT_TRUE(village.until([&] { return village.house(0).left; }));
    EXPECT_TRUE(trains(village, {1, 2, 3}));
    EXPECT_FALSE(village.member(1).view()->settlement.has_value());
}

TEST(Member, ACrashIsSettledAtOnce) {
    Village village;
    populate(village, 5);
    const Nanoseconds before = village.now;
    village.crash(0);
    EXPECT_TRUE(trains(village, {1, 2, 3, 4}));
    EXPECT_LT(village.now - before, 2 * second);
}

TEST(Member, TheLongestStandingMemberIsNotWaitedForOnceAllItsLinksAreKnownToBeDown) {
    Village village;
    populate(village, 5);
    const Nanoseconds before = village.now;
    village.crash(0);
    EXPECT_TRUE(village.until([&] { return village.settled({1, 2, 3, 4}); }));
    EXPECT_LT(village.now - before, 20 * village.delay) << village.story();
}

TEST(Member, AFrozenMemberIsThrownOutAndComesBack) {
    Village village;
    populate(village, 4);
    village.house(2).frozen = true;
    EXPECT_TRUE(trains(village, {0, 1, 3}));
    village.house(2).frozen = false;
    EXPECT_TRUE(trains(village, {0, 1, 2, 3}));
    EXPECT_FALSE(village.house(2).excluded.empty());
}

TEST(Member, ARestartedNodeJoinsAnewWithOrWithoutItsDisk) {
    for (const bool disk_kept : {true, false}) {
        Village village;
        populate(village, 3);
        village.crash(1);
        village.restart(1, disk_kept);
        if (!disk_kept) village.tell(1, JoinCommand{{{.node = Village::node(0), .address = ""}}});
        EXPECT_TRUE(trains(village, {0, 1, 2})) << disk_kept;
    }
}

TEST(Member, StrictMinorityWaitsAndAMajorityOfRestartedSeatsHelpsIt) {
    Village village;
    village.strict = true;
    populate(village, 3);
    village.crash(1);
    village.crash(2);
    village.pass(20 * second);
    const std::uint64_t stuck_at = village.member(0).applied();
    village.pass(10 * second);
    // Of three, one alone is no quorum.
    EXPECT_EQ(village.member(0).applied(), stuck_at);
    village.restart(1, true);
    village.restart(2, true);
    EXPECT_TRUE(trains(village, {0, 1, 2}));
}

TEST(Member, EverybodyDownAndFoundedAgain) {
    for (const bool strict : {true, false}) {
        Village village;
        village.strict = strict;
        populate(village, 4);
        for (unsigned i = 0; i < 4; ++i) village.crash(i);
        village.pass(second);
        for (unsigned i = 0; i < 4; ++i) village.restart(i, true);
        EXPECT_TRUE(trains(village, {0, 1, 2, 3})) << strict;
    }
}

TEST(Member, APartitionForksAndTheLinesMeetAgain) {
    Village village;
    populate(village, 4);
    for (unsigned x : {0U, 1U})
        for (unsigned y : {2U, 3U}) village.cuts.insert(link_between(Village::node(x), Village::node(y)));
    EXPECT_TRUE(trains(village, {0, 1}));
    EXPECT_TRUE(trains(village, {2, 3}));
    village.cuts.clear();
    EXPECT_TRUE(trains(village, {0, 1, 2, 3}));
}

TEST(Member, LinksAreAgreedAndRemoved) {
    Village village;
    village.options.links_wanted = 1;
    populate(village, 4);
    const LinkId link = link_between(Village::node(1), Village::node(3));
    const bool before = village.member(0).view()->find(link) != nullptr;
    if (!before) {
        village.tell(1, ConnectCommand{Village::node(3)});
        EXPECT_TRUE(village.until([&] { return village.member(3).view()->find(link) != nullptr; }));
    }
    village.tell(3, DisconnectCommand{Village::node(1)});
    EXPECT_TRUE(village.until([&] { return village.member(0).view()->find(link) == nullptr; })) << village.story();
    EXPECT_TRUE(trains(village, {0, 1, 2, 3}));
}

}  // namespace
}  // namespace chaos::cluster
