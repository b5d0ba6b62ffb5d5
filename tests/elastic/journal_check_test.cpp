// A sound story passes; each rule is broken once, and nothing but that is said.
#include "elastic/journal_check.h"

#include "elastic/journals.h"

#include <gmock/gmock.h>

namespace chaos::elastic {
namespace {

using namespace journal;
using cluster::ViewPtr;
using test::Scribe;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

CheckReport check(std::initializer_list<const Scribe*> scribes) {
    JournalCheck check;
    for (const Scribe* scribe : scribes) {
        check.begin_journal();
        for (const TimedEntry& entry : scribe->entries) check.add(entry);
    }
    return check.finish();
}

// Nodes 1 to 3 train from the beginning, under one view that they found together.
class JournalCheckTest : public testing::Test {
protected:
    explicit JournalCheckTest(bool strict = false) {
        ViewPtr view = test::founded(16, strict);
        view = test::join(view, 2, {1}, 0).back();
        all = test::join(view, 3, {1, 2}, 0).back();
        for (Scribe* scribe : {&one, &two, &three}) {
            scribe->adopt(all);
            scribe->restore();
        }
    }
    void train(std::initializer_list<Scribe*> scribes, const ViewPtr& view, std::uint64_t until) {
        for (Scribe* scribe : scribes)
            while (scribe->applied < until) scribe->apply(view);
    }
    [[nodiscard]] CheckReport check_all() const { return check({&one, &two, &three}); }
    static void adopt(std::initializer_list<Scribe*> scribes, const ViewPtr& view) {
        for (Scribe* scribe : scribes) scribe->adopt(view);
    }

    Scribe one{1};
    Scribe two{2};
    Scribe three{3};
    ViewPtr all;
};

class StrictJournalCheckTest : public JournalCheckTest {
protected:
    StrictJournalCheckTest() : JournalCheckTest(true) {}
};

std::string id(std::uint64_t number) {
    return cluster::brief(test::node(number));
}

TEST_F(JournalCheckTest, ASoundStoryPassesInAnyOrderAndInPart) {
    train({&one, &two, &three}, all, 20);
    // Three dies after it alone has applied step 20; the others redo it.
    three.apply(all);
    const ViewPtr without = test::lose(all, {3}, 20);
    one.now_ns += 7 * Scribe::step_ns;
    adopt({&one, &two}, without);
    train({&one, &two}, without, 30);
    // It comes back, pulls the state, follows for a while, and takes part again.
    const auto joining = test::join(without, 3, {1}, 40);
    adopt({&one, &two}, joining[0]);
    train({&one, &two}, without, 35);
    three.begin();
    three.adopt(joining[0]);
    three.adopt(without);
    three.sync_from(one);
    adopt({&one, &two, &three}, joining[1]);
    train({&one, &two}, without, 40);
    while (three.applied < 40) three.apply(without, How::followed);
    train({&one, &two, &three}, joining[1], 64);
    for (Scribe* scribe : {&one, &two, &three}) scribe->say_root();
    one.say(Left{});

    const CheckReport report = check({&one, &two, &three});
    EXPECT_THAT(report.violations, ElementsAre());
    EXPECT_EQ(report.committed, 65U);
    EXPECT_EQ(report.views, 4U);
    EXPECT_EQ(report.unknown_views, 0U);
    EXPECT_EQ(report.members, 3U);
    EXPECT_EQ(report.pass_samples, Scribe::pass_samples);
    ASSERT_EQ(report.nodes.size(), 3U);
    EXPECT_EQ(report.nodes[0].node, test::node(1));
    EXPECT_EQ(report.nodes[0].applied, 64U);
    EXPECT_EQ(report.nodes[0].longest_pause_ns, 8 * Scribe::step_ns);
    EXPECT_EQ(report.nodes[0].longest_pause_step, 20U);
    EXPECT_EQ(report.nodes[0].longest_pause_since_fault_ns, 8 * Scribe::step_ns);
    EXPECT_TRUE(report.nodes[0].left);
    EXPECT_EQ(report.nodes[2].lives, 2U);
    EXPECT_EQ(report.nodes[2].followed, 5U);
    EXPECT_EQ(report.nodes[2].exchanged, 45U);

    EXPECT_TRUE(check({&three, &two, &one}).sound());
    EXPECT_TRUE(check({&two}).sound());
    EXPECT_TRUE(check({&three}).sound());
    EXPECT_TRUE(check({&three, &one}).sound());
}

TEST_F(JournalCheckTest, AnotherResult) {
    train({&one, &two, &three}, all, 5);
    state::StepRecord record = three.record(all);
    ++record.result_hash;
    three.apply(record);
    train({&one, &two}, all, 6);
    EXPECT_THAT(check_all().violations,
                ElementsAre(AllOf(HasSubstr("I1: " + id(3) + " has another result of step 5 under view 4"),
                                  HasSubstr("than " + id(1)))));
}

TEST_F(JournalCheckTest, AnotherRecordOfTheSameResult) {
    train({&one, &two, &three}, all, 5);
    state::StepRecord record = two.record(all);
    record.scalars.learning_rate = 0.5;
    two.apply(record);
    train({&one, &three}, all, 6);
    EXPECT_THAT(check_all().violations, ElementsAre(HasSubstr("I1: " + id(2) + " has another record of step 5")));
}

TEST_F(JournalCheckTest, AnotherStateOfTheSameLineage) {
    train({&one, &two, &three}, all, 5);
    one.say_root();
    two.say(StateHash{.applied = 5, .root = test::name(77)});
    EXPECT_THAT(check_all().violations, ElementsAre(HasSubstr("I1: " + id(2) + " has another state after 5 steps")));
}

TEST_F(JournalCheckTest, ARootMayBeSaidLater) {
    train({&one, &two, &three}, all, 5);
    const cluster::Name root = one.root();
    one.say_root();
    train({&two}, all, 7);
    two.say(StateHash{.applied = 5, .root = root});
    EXPECT_TRUE(check_all().sound());
    two.say(StateHash{.applied = 9, .root = root});
    EXPECT_THAT(check_all().violations, ElementsAre(HasSubstr("after 9 steps, but it has no such state")));
}

TEST_F(JournalCheckTest, OneNameForTwoViews) {
    auto other = std::make_shared<cluster::View>(*all);
    other->members[0].speed += 1;
    two.adopt(other);
    EXPECT_THAT(check_all().violations,
                ElementsAre(AllOf(HasSubstr("I1: " + id(2) + " holds another content"), HasSubstr("the members"))));
}

TEST_F(JournalCheckTest, AStableStepIsDoneAgain) {
    train({&one, &two, &three}, all, 5);
    // Step 4 may still be redone, but not step 3: everybody had applied it to contribute to step 4.
    const ViewPtr soon = test::lose(all, {3}, 3);
    Scribe other{2};
    other.adopt(all);
    other.restore();
    train({&other}, all, 3);
    other.adopt(soon);
    train({&other}, soon, 5);
    EXPECT_THAT(check({&one, &other}).violations, ElementsAre(AllOf(HasSubstr("I2: step 3 is committed under view 5"),
                                                                    HasSubstr("stable under view 4"))));
    EXPECT_THAT(check({&other, &one}).violations, ElementsAre(HasSubstr("I2: step 3 is committed under view 5")));
}

TEST_F(JournalCheckTest, WhatIsSaidToBeStableIsNotDoneAgain) {
    train({&one, &two}, all, 5);
    one.say(Stable{5});
    const ViewPtr next = test::lose(all, {3}, 4);
    Scribe other{2};
    other.adopt(all);
    other.restore();
    train({&other}, all, 4);
    other.adopt(next);
    train({&other}, next, 6);
    EXPECT_THAT(check({&one, &other}).violations, ElementsAre(AllOf(HasSubstr("I2: step 4 is committed under view 5"),
                                                                    HasSubstr("stable under view 4"))));
}

TEST_F(JournalCheckTest, WhoStartsAgainSaysNothingAboutTheViewsOfItsEarlierLife) {
    train({&one, &two, &three}, all, 4);
    three.begin(2);
    three.restore();
    three.adopt(all);
    const ViewPtr next = test::lose(all, {3}, 4);
    adopt({&one, &two, &three}, next);
    train({&one, &two}, next, 6);
    three.sync_from(one);
    three.say(Stable{6});
    EXPECT_THAT(check_all().violations, ElementsAre());
}

TEST_F(JournalCheckTest, WhoHadNotBegunWhenAFaultCameSaysNothingAboutTheViewThatLetItIn) {
    train({&one, &two, &three}, all, 4);
    Scribe four{4};
    for (const ViewPtr& view : test::join(all, 4, {1, 2}, 8)) adopt({&one, &two, &three, &four}, view);
    const ViewPtr next = test::lose(test::join(all, 4, {1, 2}, 8).back(), {3}, 4);
    ASSERT_FALSE(next->is_active(test::node(4)));
    adopt({&one, &two, &four}, next);
    train({&one, &two}, next, 6);
    four.sync_from(one);
    four.say(Stable{6});
    EXPECT_THAT(check({&one, &two, &three, &four}).violations, ElementsAre());
}

TEST_F(JournalCheckTest, ARestartFromAStableCheckpointIsSoundAndFromAnotherItIsNot) {
    train({&one, &two, &three}, all, 4);
    const cluster::Name fourth = one.lineage;
    train({&one, &two}, all, 6);
    cluster::Delta delta = test::change(*all, 4);
    delta.settlement.emplace();
    delta.settlement->applied = 4;
    delta.settlement->founded = true;
    delta.settlement->lineage = fourth;
    const ViewPtr again = test::follow(all, delta);
    for (Scribe* scribe : {&one, &two}) {
        scribe->begin();
        scribe->adopt(again);
        scribe->restore(4, fourth);
    }
    train({&one, &two}, again, 8);
    EXPECT_THAT(check_all().violations, ElementsAre());
    EXPECT_EQ(check_all().foundings, 1U);

    // Step 7 was applied by two of three, and nobody has contributed to step 8.
    one.begin();
    one.restore(8, one.lineage);
    EXPECT_THAT(check_all().violations,
                ElementsAre(HasSubstr("I2: " + id(1) + " goes back to its checkpoint of 8 steps")));
}

TEST_F(StrictJournalCheckTest, TwoLinesFromOneParent) {
    train({&one, &two, &three}, all, 5);
    const ViewPtr left = test::lose(all, {3}, 5);
    cluster::Delta delta = test::change(*all, 5);
    delta.settlement.emplace();
    delta.settlement->applied = 5;
    delta.removals = {{.node = test::node(1), .reason = cluster::Reason::failed},
                      {.node = test::node(2), .reason = cluster::Reason::failed}};
    const ViewPtr right = test::follow(all, delta);
    adopt({&one, &two}, left);
    train({&one, &two}, left, 7);
    EXPECT_TRUE(check_all().sound());
    three.adopt(right);
    EXPECT_THAT(check_all().violations, ElementsAre(AllOf(HasSubstr("I4: "), HasSubstr("a quorum decided"))));
    train({&three}, right, 7);
    EXPECT_THAT(check_all().violations,
                ElementsAre(HasSubstr("a quorum decided"), AllOf(HasSubstr("I4: steps are committed under view 5"),
                                                                 HasSubstr("which both follow view 4"))));
}

TEST_F(JournalCheckTest, AForkIsSoundWhereThePolicyAllowsIt) {
    train({&one, &two, &three}, all, 5);
    const ViewPtr left = test::lose(all, {3}, 5);
    const ViewPtr right = test::lose(all, {1, 2}, 5, true);
    adopt({&one, &two}, left);
    three.adopt(right);
    train({&one, &two}, left, 7);
    train({&three}, right, 9);
    const CheckReport report = check_all();
    EXPECT_THAT(report.violations, ElementsAre());
    EXPECT_EQ(report.forks, 1U);
}

TEST_F(JournalCheckTest, AJoinerWithAnotherRoot) {
    train({&one, &two, &three}, all, 5);
    one.say_root();
    Scribe joiner{4};
    joiner.say(Synced{.applied = 5, .lineage = one.lineage, .root = test::name(66)});
    for (const CheckReport& report : {check({&one, &joiner}), check({&joiner, &one})})
        EXPECT_THAT(report.violations, ElementsAre(AllOf(HasSubstr("I5: "), HasSubstr("another state after 5 steps"))));
}

TEST_F(JournalCheckTest, AJoinerWithAnotherLineage) {
    train({&one, &two, &three}, all, 6);
    Scribe joiner{4};
    joiner.adopt(all);
    joiner.applied = 5;
    joiner.lineage = test::name(55);
    joiner.say(Synced{.applied = 5, .lineage = joiner.lineage, .root = test::name(66)});
    joiner.apply(all, How::followed);
    for (const CheckReport& report : {check({&one, &joiner}), check({&joiner, &one})})
        EXPECT_THAT(report.violations, ElementsAre(AllOf(HasSubstr("I5: "), HasSubstr("lineage before step 5"))));
}

TEST_F(JournalCheckTest, AJoinerThatMiscounts) {
    train({&one, &two, &three}, all, 6);
    Scribe joiner{4};
    joiner.say(Synced{.applied = 7, .lineage = one.lineage, .root = one.root()});
    EXPECT_THAT(check({&one, &joiner}).violations,
                ElementsAre(HasSubstr("I5: " + id(4) + " has a state of 7 steps with the lineage of one of 6 steps")));
}

TEST_F(JournalCheckTest, AStepIsLeftOut) {
    train({&one}, all, 5);
    ++one.applied;
    one.apply(all);
    const CheckReport report = check({&one});
    ASSERT_FALSE(report.violations.empty());
    EXPECT_THAT(report.violations[0], HasSubstr("I6: " + id(1) + " applies step 6 to a state of 5 steps"));
}

TEST_F(JournalCheckTest, SamplesAreSkippedOrTakenTwice) {
    for (const std::uint64_t index : {std::uint64_t{79}, std::uint64_t{81}}) {
        Scribe scribe = one;
        train({&scribe}, all, 5);
        state::StepRecord record = scribe.record(all);
        ASSERT_EQ(record.index, 80U);
        record.index = index;
        scribe.apply(record);
        EXPECT_THAT(check({&scribe}).violations,
                    ElementsAre(HasSubstr("begins step 5 under " + cluster::label_of(*all) + " with sample " +
                                          std::to_string(index) +
                                          " of pass 0, but the step before ended with sample "
                                          "80 of pass 0")));
    }
}

TEST_F(JournalCheckTest, EveryPassIsOfOneLength) {
    train({&one}, all, 12);  // pass 1 has begun
    state::StepRecord record = one.record(all);
    ASSERT_EQ(record.pass, 1U);
    record.pass = 2;
    record.index = 0;
    one.apply(record);
    EXPECT_THAT(check({&one}).violations, ElementsAre(AllOf(HasSubstr("I6: "), HasSubstr("begins step 12"))));
}

TEST_F(JournalCheckTest, ARestartGoesOnWithTheNextSample) {
    train({&one, &two, &three}, all, 5);
    Scribe back{3};
    back.adopt(all);
    back.restore(5, three.lineage);
    state::StepRecord record = back.record(all);
    record.index += 1;
    back.apply(record);
    EXPECT_THAT(check({&one, &two, &three, &back}).violations,
                ElementsAre(AllOf(HasSubstr("I6: " + id(3) + " begins step 5 with sample 81"),
                                  HasSubstr("ended with sample 80"))));
}

TEST_F(JournalCheckTest, ABatchThatIsNotWhole) {
    train({&one}, all, 5);
    state::StepRecord record = one.record(all);
    record.samples -= 3;
    one.apply(record);
    EXPECT_THAT(check({&one}).violations,
                ElementsAre(AllOf(HasSubstr("I6: step 5"), HasSubstr("holds 13 samples and lost 0 of 16"))));
    // What is lost on purpose is said.
    std::get<Applied>(one.entries[one.entries.size() - 2].entry).samples_lost = 3;
    const CheckReport report = check({&one});
    EXPECT_TRUE(report.sound());
    EXPECT_EQ(report.samples_lost, 3U);
}

TEST_F(JournalCheckTest, SharesThatAreNotTheBatch) {
    train({&one}, all, 5);
    auto redone = std::make_shared<cluster::View>(*test::lose(all, {3}, 5));
    ASSERT_FALSE(redone->redo.empty());
    redone->redo[0].ranges.clear();
    one.adopt(redone);
    train({&one}, redone, 6);
    EXPECT_THAT(check({&one}).violations, ElementsAre(HasSubstr("I6: the shares of step 5 under view 5")));
}

TEST_F(JournalCheckTest, ALineageThatIsNotTheHashOfItsRecord) {
    train({&one}, all, 5);
    one.say(Applied{.record = one.record(all), .lineage = test::name(1), .how = How::exchanged, .samples_lost = 0});
    EXPECT_THAT(check({&one}).violations, ElementsAre(HasSubstr("I6: " + id(1) + " has a lineage after step 5")));
}

TEST_F(JournalCheckTest, AStateThatComesFromNowhere) {
    Scribe lost{2};
    lost.adopt(all);
    lost.applied = 3;
    lost.apply(all);
    EXPECT_THAT(check({&lost}).violations, ElementsAre(HasSubstr("has not said where its state comes from")));
}

TEST_F(JournalCheckTest, OnlyActiveMembersTakePart) {
    train({&one, &two, &three}, all, 5);
    const ViewPtr next = test::lose(all, {3}, 5);
    train({&one}, next, 6);
    EXPECT_THAT(check({&one}).violations, ElementsAre(HasSubstr("which it never adopted")));
    three.adopt(next);
    three.apply(next);
    EXPECT_THAT(check({&three}).violations, ElementsAre(HasSubstr("where it is not active")));
}

TEST_F(JournalCheckTest, AnotherRun) {
    std::get<Begun>(two.entries[0].entry).run = test::name(8);
    EXPECT_THAT(check_all().violations, testing::Contains(HasSubstr("trains another run")));
}

TEST_F(JournalCheckTest, ALongListOfViolationsIsCut) {
    train({&one}, all, 300);
    Scribe other{2};
    other.adopt(all);
    other.restore();
    while (other.applied < 300) {
        state::StepRecord record = other.record(all);
        record.result_hash = 1;
        other.apply(record);
    }
    const CheckReport report = check({&one, &other});
    EXPECT_EQ(report.violations.size(), JournalCheck::max_violations);
    EXPECT_GT(report.more_violations, 100U);
}

}  // namespace
}  // namespace chaos::elastic
