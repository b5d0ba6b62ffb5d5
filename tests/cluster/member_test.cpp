#include "cluster/member.h"

#include "cluster/village.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::cluster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

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

std::uint32_t speed_of(Village& village, unsigned number, unsigned witness) {
    return village.member(witness).view()->find(village.member(number).id().node)->speed;
}

// Of two members, the older one decides alone.
TEST(Member, ASpeedThatChangedIsAgreedOnOnceNoViewCameForAMinute) {
    Village village;
    populate(village, 2);
    ASSERT_TRUE(trains(village, {0, 1}));
    EXPECT_EQ(speed_of(village, 1, 0), 10U);
    village.tell(1, MeasuredSpeed{40});
    EXPECT_TRUE(village.until([&] { return speed_of(village, 1, 0) == 40; }, 70 * second)) << village.story();
    EXPECT_GT(village.now, 60 * second);
    village.tell(1, MeasuredSpeed{45});  // within a quarter
    EXPECT_FALSE(village.until([&] { return speed_of(village, 1, 0) != 40; }, 130 * second)) << village.story();
    EXPECT_FALSE(village.member(0).view()->settlement.has_value());
}

TEST(Member, ASpeedThatNobodyKnewIsAgreedOnAtOnce) {
    Village village;
    village.speed = 0;
    populate(village, 3);
    ASSERT_TRUE(trains(village, {0, 1, 2}));
    EXPECT_EQ(speed_of(village, 2, 0), 0U);
    village.tell(2, MeasuredSpeed{40});
    EXPECT_TRUE(village.until([&] { return speed_of(village, 2, 0) == 40; }, 5 * second)) << village.story();
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

TEST(Member, TheOthersDoNotWaitForOneWhoseConnectionsAllBreakAndComeBack) {
    for (const unsigned who : {0U, 1U, 4U}) {
        for (unsigned phase = 0; phase < 16; ++phase) {
            const Nanoseconds stagger = phase % 4 * 3 * millisecond;
            Village village;
            populate(village, 5);
            village.pass(phase * 17 * millisecond);
            std::vector<unsigned> others{0, 1, 2, 3, 4};
            std::erase(others, who);
            for (const unsigned other : others) {
                village.sever(who, other);
                village.pass(stagger);
            }
            const std::uint64_t reached = village.member(others[0]).applied();
            const Nanoseconds before = village.now;
            // Its own line, if it has begun one, ends where the two meet.
            ASSERT_TRUE(village.until([&] { return village.advanced(others, reached + 2); })) << village.story();
            EXPECT_LT(village.now - before, village.options.detect + 4 * village.delay + 2 * village.step_time)
                << "house " << who << ", phase " << phase << "\n"
                << village.story();
            ASSERT_TRUE(trains(village, {0, 1, 2, 3, 4})) << village.story();
        }
    }
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

TEST(Member, WhoeverComesBackIsDialledWhereItIsNow) {
    const auto address_of = [](Village& village, unsigned number) {
        return village.member(number == 0 ? 1 : 0).view()->find(Village::node(number))->address;
    };
    Village village;
    for (unsigned i = 0; i < 3; ++i) village.give(i, certificate(Village::institution(), Village::node(i)));
    for (unsigned i = 0; i < 3; ++i) village.house(i).address = "old:" + std::to_string(i);
    populate(village, 3);
    EXPECT_EQ(address_of(village, 1), "old:1");
    // Alone, while the others went on.
    village.crash(1);
    village.house(1).address = "new:1";
    village.restart(1, true);
    EXPECT_TRUE(trains(village, {0, 1, 2}));
    EXPECT_EQ(address_of(village, 1), "new:1");
    // And where all were down: the others know only what the last view said.
    for (unsigned i = 0; i < 3; ++i) village.crash(i);
    village.house(2).address = "new:2";
    for (unsigned i = 0; i < 3; ++i) village.restart(i, true);
    EXPECT_TRUE(trains(village, {0, 1, 2}));
    EXPECT_TRUE(village.member(0).view()->find(Village::node(2))->id.incarnation > 1000);
    EXPECT_EQ(address_of(village, 0), "old:0");
    EXPECT_EQ(address_of(village, 1), "new:1");
    EXPECT_EQ(address_of(village, 2), "new:2");
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

bool noted(Village& village, unsigned number, const std::string& words) {
    return std::ranges::any_of(village.house(number).notes,
                               [&](const std::string& text) { return text.find(words) != std::string::npos; });
}

TEST(Member, AStrictMinorityGoesOnWhenAPersonSaysSo) {
    // Whoever of them is told: the one that stands longest, or another.
    for (const unsigned told : {0U, 1U}) {
        Village village;
        village.strict = true;
        populate(village, 5);
        for (const unsigned lost : {2U, 3U, 4U}) village.crash(lost);
        village.pass(30 * second);
        const std::uint64_t stuck_at = village.member(told).applied();
        const Result<Recovery> recovery = village.member(told).recovery();
        ASSERT_TRUE(recovery) << recovery.error().message;
        EXPECT_EQ(recovery->here, (std::vector{Village::node(0), Village::node(1)}));
        EXPECT_EQ(recovery->lost.size(), 3U);
        EXPECT_FALSE(recovery->founds);
        EXPECT_EQ(recovery->applied, stuck_at);
        EXPECT_NE(village.member(told).why().find("only 2 of 5 active members"), std::string::npos);
        village.tell(told, RecoverCommand{});
        EXPECT_TRUE(trains(village, {0, 1})) << village.story();
        EXPECT_EQ(village.member(1 - told).view()->strict, true);
        EXPECT_GE(village.member(told).applied(), stuck_at);
        // Those who were lost join what goes on; what they know of is no quorum any more.
        village.restart(2, true);
        village.restart(3, true);
        EXPECT_TRUE(trains(village, {0, 1, 2, 3})) << village.story();
    }
}

TEST(Member, AForcedForkGivesWayToTheQuorumThatWasThereAllTheSame) {
    Village village;
    village.strict = true;
    populate(village, 5);
    for (const unsigned x : {0U, 1U})
        for (const unsigned y : {2U, 3U, 4U}) village.cuts.insert(link_between(Village::node(x), Village::node(y)));
    EXPECT_TRUE(trains(village, {2, 3, 4}));
    village.tell(1, RecoverCommand{});
    EXPECT_TRUE(trains(village, {0, 1})) << village.story();
    EXPECT_TRUE(village.member(0).view()->fork == Fork::forced);
    const std::uint64_t reached = village.member(2).applied();
    village.cuts.clear();
    EXPECT_TRUE(trains(village, {0, 1, 2, 3, 4})) << village.story();
    EXPECT_FALSE(village.house(0).excluded.empty());
    EXPECT_TRUE(village.house(2).excluded.empty());
    EXPECT_GE(village.member(0).applied(), reached);
}

TEST(Member, WhereAllWereDownAndTooFewComeBackAPersonMayFoundAgain) {
    Village village;
    village.strict = true;
    village.options.may_found = false;  // started to join others: even so
    populate(village, 5);
    for (unsigned i = 0; i < 5; ++i) village.crash(i);
    village.pass(second);
    for (const unsigned back : {3U, 4U}) village.restart(back, true);
    village.pass(100 * second);
    EXPECT_EQ(village.member(3).role(), Role::returning);
    const Result<Recovery> recovery = village.member(3).recovery();
    ASSERT_TRUE(recovery) << recovery.error().message;
    EXPECT_TRUE(recovery->founds);
    EXPECT_EQ(recovery->here, (std::vector{Village::node(3), Village::node(4)}));
    const std::uint64_t newest = std::max(village.house(3).checkpoint->applied, village.house(4).checkpoint->applied);
    village.tell(3, RecoverCommand{});
    EXPECT_TRUE(trains(village, {3, 4})) << village.story();
    EXPECT_GE(village.member(3).applied(), newest);
    village.restart(0, true);
    EXPECT_TRUE(trains(village, {0, 3, 4})) << village.story();
}

TEST(Member, RecoveryIsRefusedWhereThereIsNothingToRecover) {
    const auto refused = [](Village& village, unsigned number, const std::string& words) {
        village.tell(number, RecoverCommand{});
        const Result<Recovery> recovery = village.member(number).recovery();
        ASSERT_FALSE(recovery);
        EXPECT_NE(recovery.error().message.find(words), std::string::npos) << recovery.error().message;
        EXPECT_TRUE(village.until([&] { return noted(village, number, words); }, second));
    };
    Village strict;
    strict.strict = true;
    populate(strict, 3);
    refused(strict, 0, "that is a quorum");
    strict.crash(2);
    EXPECT_TRUE(trains(strict, {0, 1}));
    EXPECT_EQ(strict.member(0).view()->fork, Fork::none);
    strict.add(7);
    refused(strict, 7, "not a member of a cluster");
    Village goes_on;
    populate(goes_on, 3);
    goes_on.crash(0);
    goes_on.crash(1);
    refused(goes_on, 2, "the policy of this cluster is continue");
}

TEST(Member, NobodyForcesAForkOnThoseWhoReachAQuorum) {
    Village village;
    village.strict = true;
    populate(village, 3);
    // A liar proposes one that leaves a member out.
    const View& view = *village.member(0).view();
    Delta delta;
    delta.parent = view.name;
    delta.epoch = view.epoch + 1;
    delta.fork = Fork::forced;
    delta.settlement.emplace();
    delta.settlement->applied = village.member(0).applied();
    delta.first_step = delta.settlement->applied;
    delta.removals = {{.node = Village::node(2), .reason = Reason::failed}};
    const NodeId liar = Village::node(1);
    const MessagePtr lie = make_signed(Accept{.ballot = {.round = 1000, .proposer = liar}, .delta = delta, .stamp = {}},
                                       village.member(1).id(), 1, PlainSigner(liar));
    village.tell(0, Received{.from = liar, .message = lie});
    EXPECT_TRUE(village.until([&] { return noted(village, 0, "that is a quorum"); }, second)) << village.story();
    EXPECT_TRUE(trains(village, {0, 1, 2}));
}

TEST(Member, ARepeatOffenderIsExpelledByThoseWhoFoundIt) {
    Village village;
    populate(village, 4);
    ASSERT_TRUE(village.until([&] { return village.advanced({0, 1, 2, 3}, 2 * offence_steps); }, 600 * second));
    // One alone cannot do it: the others took part in the same steps, and found nothing.
    village.tell(0, FoundOffender{Village::node(3)});
    village.pass(10 * second);
    EXPECT_TRUE(village.settled({0, 1, 2, 3})) << village.story();
    EXPECT_TRUE(noted(village, 1, "was not found to be a repeat offender here")) << village.story();
    for (const unsigned number : {1U, 2U, 3U}) village.tell(number, FoundOffender{Village::node(3)});
    EXPECT_TRUE(trains(village, {0, 1, 2})) << village.story();
    EXPECT_TRUE(village.member(0).view()->revokes(Village::node(3), {}));
    EXPECT_EQ(village.member(3).role(), Role::outside);
    ASSERT_FALSE(village.house(3).excluded.empty());
    EXPECT_NE(village.house(3).excluded.back().find("of no use, time and again"), std::string::npos);
    // For good: not even a new life of it, without its disk, is let in.
    village.join(3, 0);
    village.pass(10 * second);
    EXPECT_EQ(village.member(3).role(), Role::joining);
    EXPECT_NE(village.member(3).why().find("expelled"), std::string::npos) << village.member(3).why();
}

TEST(Member, WhoCameLaterGoesAlongWithWhatTheOthersFound) {
    Village village;
    populate(village, 4);
    village.tell(0, FoundOffender{Village::node(3)});
    EXPECT_TRUE(trains(village, {0, 1, 2})) << village.story();
}

// Three that trained together and are down: two of them with less than the view says was reached.
void bring_down(Village& village, std::optional<Checkpoint> of_second, std::optional<Checkpoint> of_third) {
    populate(village, 3);
    ASSERT_GT(village.member(0).view()->first_step, 1U);
    for (unsigned i = 0; i < 3; ++i) village.crash(i);
    village.pass(second);
    village.house(1).checkpoint = of_second;
    village.house(2).checkpoint = of_third;
    for (unsigned i : {1U, 2U}) village.restart(i, true);
}

TEST(Member, AQuorumWaitsForTheHolderOfTheNewestCheckpoint) {
    for (const bool strict : {true, false}) {
        Village village;
        village.strict = strict;
        bring_down(village, Checkpoint{.applied = 1, .lineage = sha256("1")}, std::nullopt);
        const std::uint64_t saved = village.house(0).checkpoint->applied;
        village.pass(10 * second);
        EXPECT_EQ(village.member(1).role(), Role::returning) << village.story();
        EXPECT_THAT(village.member(1).why(), HasSubstr("waits for " + brief(Village::node(0))));
        EXPECT_THAT(village.member(1).why(), HasSubstr("is of step 1"));
        village.restart(0, true);
        EXPECT_TRUE(trains(village, {0, 1, 2})) << village.story();
        EXPECT_GT(village.member(1).applied(), saved);
    }
}

TEST(Member, AQuorumGoesOnFromAnOlderCheckpointInTheEndAndSaysWhatIsLost) {
    for (const bool strict : {true, false}) {
        Village village;
        village.strict = strict;
        bring_down(village, Checkpoint{.applied = 1, .lineage = sha256("1")}, std::nullopt);
        EXPECT_TRUE(trains(village, {1, 2})) << village.story();
        EXPECT_THAT(village.house(2).notes,
                    Contains(AllOf(HasSubstr("goes on from the checkpoint of step 1"), HasSubstr("are lost"))));
    }
}

TEST(Member, NobodyFoundsFromNothingWhatWasTrained) {
    for (const bool strict : {true, false}) {
        Village village;
        village.strict = strict;
        bring_down(village, std::nullopt, std::nullopt);
        const std::uint64_t saved = village.house(0).checkpoint->applied;
        village.pass(200 * second);
        EXPECT_EQ(village.member(1).role(), Role::returning) << village.story();
        EXPECT_THAT(village.member(1).why(), HasSubstr("nobody who came back has a checkpoint"));
        village.restart(0, true);
        EXPECT_TRUE(trains(village, {0, 1, 2})) << village.story();
        EXPECT_GT(village.member(1).applied(), saved);
    }
}

// It went on alone for a moment, and nothing of that is left.
TEST(Member, TheLastOneWithoutACheckpointGoesBackToThoseThatItLost) {
    Village village;
    village.found(0);
    village.join(1, 0);
    ASSERT_TRUE(trains(village, {0, 1})) << village.story();
    village.crash(0);
    village.house(0).checkpoint = Checkpoint{.applied = village.member(1).applied() - 2, .lineage = sha256("saved")};
    ASSERT_TRUE(trains(village, {1})) << village.story();
    const std::uint64_t saved = village.house(0).checkpoint->applied;
    village.crash(1);
    village.house(1).checkpoint.reset();
    village.restart(1, true);
    village.pass(200 * second);
    EXPECT_EQ(village.member(1).role(), Role::joining) << village.story();
    EXPECT_THAT(village.member(1).why(), HasSubstr("asks those that it had lost before"));
    EXPECT_THAT(village.member(1).why(), HasSubstr(brief(Village::node(0))));
    village.restart(0, true);
    EXPECT_TRUE(trains(village, {0, 1})) << village.story();
    EXPECT_GT(village.member(1).applied(), saved);
}

// Nobody is where it was told to ask.
TEST(Member, WhoIsLetInByNobodyMayFoundAllTheSame) {
    Village village;
    village.join(1, 0);
    village.pass(10 * second);
    ASSERT_EQ(village.member(1).role(), Role::joining);
    village.tell(1, FoundCommand{village.founding()});
    EXPECT_TRUE(trains(village, {1})) << village.story();
}

// Its disk is gone: there is nothing to wait for.
TEST(Member, WhoLostItsSeatIsNotWaitedFor) {
    Village village;
    bring_down(village, std::nullopt, std::nullopt);
    village.pass(10 * second);
    village.join(0, 1);
    EXPECT_TRUE(trains(village, {0, 1, 2})) << village.story();
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

bool linked(Village& village, unsigned by, unsigned a, unsigned b) {
    return village.member(by).view()->find(link_between(Village::node(a), Village::node(b))) != nullptr;
}

TEST(Member, ALinkThatWasRemovedStaysGoneUntilSomebodyAsksForIt) {
    Village village;
    populate(village, 3);
    ASSERT_TRUE(village.until([&] { return linked(village, 0, 0, 1); })) << village.story();
    village.tell(0, DisconnectCommand{Village::node(1)});
    ASSERT_TRUE(village.until([&] { return !linked(village, 0, 0, 1) && !linked(village, 1, 0, 1); }));
    const std::uint64_t epoch = village.member(0).view()->epoch;
    village.pass(30 * second);
    EXPECT_FALSE(linked(village, 0, 0, 1)) << village.story();
    EXPECT_EQ(village.member(0).view()->epoch, epoch) << village.story();
    EXPECT_TRUE(trains(village, {0, 1, 2}));
    // By the end that did not give it up.
    village.tell(1, ConnectCommand{Village::node(0)});
    EXPECT_TRUE(village.until([&] { return linked(village, 0, 0, 1) && linked(village, 1, 0, 1); })) << village.story();
    for (const unsigned number : {0U, 1U}) EXPECT_TRUE(village.house(number).refused_links.empty());
}

TEST(Member, ALinkThatWasRemovedComesBackWhereALeaverWouldCutOthersOff) {
    Village village;
    populate(village, 3);
    ASSERT_TRUE(village.until([&] { return linked(village, 0, 0, 1); })) << village.story();
    village.tell(0, DisconnectCommand{Village::node(1)});
    ASSERT_TRUE(village.until([&] { return !linked(village, 0, 0, 1); })) << village.story();
    village.tell(2, LeaveCommand{});
    EXPECT_TRUE(village.until([&] { return village.house(2).left; })) << village.story();
    EXPECT_TRUE(trains(village, {0, 1})) << village.story();
    EXPECT_TRUE(linked(village, 0, 0, 1));
    for (const unsigned number : {0U, 1U}) EXPECT_TRUE(village.house(number).excluded.empty());
}

TEST(Member, WhoeverAsksForALinkIsToldWhyNoneComesAbout) {
    Village village;
    village.options.links_wanted = 1;
    populate(village, 4);
    village.options.links_allowed = 1;  // of the last one
    village.join(4, 0);
    ASSERT_TRUE(trains(village, {0, 1, 2, 3, 4})) << village.story();
    village.pass(10 * second);
    unsigned asks = 0;
    while (linked(village, 0, asks, 4)) ++asks;
    ASSERT_LT(asks, 4U) << village.story();
    std::vector<LinkRefused>& refused = village.house(asks).refused_links;
    const auto why = [&](const ConnectCommand& command) {
        refused.clear();
        village.tell(asks, command);
        return village.until([&] { return !refused.empty(); }, 20 * second) ? refused[0].text : village.story();
    };
    EXPECT_EQ(why({Village::node(4)}), "no link with " + brief(Village::node(4)) +
                                           " comes about: it declined: it has as many links as it wants");
    EXPECT_EQ(refused[0].peer, Village::node(4));
    EXPECT_TRUE(refused[0].connect);
    EXPECT_NE(why({Village::node(9)}).find("it is not another member"), std::string::npos);
    village.pass(10 * second);  // until what was there to talk about it is closed
    village.cuts.insert(link_between(Village::node(asks), Village::node(4)));
    EXPECT_NE(why({Village::node(4)}).find("it has no address where it could be dialled"), std::string::npos);
    village.cuts.clear();
    village.house(4).frozen = true;
    EXPECT_NE(why({Village::node(4)}).find("it is not a member any more"), std::string::npos);
    village.house(4).frozen = false;
    EXPECT_TRUE(trains(village, {0, 1, 2, 3, 4})) << village.story();
}

TEST(Member, KnowsWhatLedToAView) {
    Village village;
    village.found(0);
    ASSERT_TRUE(village.until([&] { return village.member(0).view() != nullptr; }));
    EXPECT_EQ(village.member(0).decision(*village.member(0).view()), nullptr);  // it was founded
    village.join(1, 0);
    ASSERT_TRUE(trains(village, {0, 1}));
    village.tell(1, LeaveCommand{});
    ASSERT_TRUE(village.until([&] { return village.house(1).left; }));
    const ViewPtr view = village.member(0).view();
    const DecidePtr led = village.member(0).decision(*view);
    ASSERT_NE(led, nullptr);
    EXPECT_EQ(name_of(led->delta), view->name);
    EXPECT_EQ(led->delta.removals, (std::vector<Removal>{{.node = Village::node(1), .reason = Reason::left}}));
}

TEST(Member, AWishThatTheMembersCannotAgreeOnEnds) {
    Village village;
    village.strict = true;
    populate(village, 3);
    ASSERT_TRUE(village.until([&] { return linked(village, 0, 0, 1); })) << village.story();
    village.crash(1);
    village.crash(2);
    village.pass(second);
    village.tell(0, DisconnectCommand{Village::node(1)});
    ASSERT_TRUE(village.until([&] { return !village.house(0).refused_links.empty(); }, 60 * second)) << village.story();
    EXPECT_FALSE(village.house(0).refused_links[0].connect);
    EXPECT_NE(village.house(0).refused_links[0].text.find("did not agree"), std::string::npos);
    // Whom it misses, and since when.
    const std::vector<Missed> missed = village.member(0).missed();
    ASSERT_EQ(missed.size(), 2U);
    for (const Missed& one : missed) {
        EXPECT_FALSE(one.connected);
        EXPECT_GT(one.silent_for, 10 * second);
    }
}

}  // namespace
}  // namespace chaos::cluster
