// Members that cannot reach each other, under the policy `strict`, and meet again; participant_test.cpp has the other
// policy's.
#include "elastic/clan.h"

#include <gmock/gmock.h>

namespace chaos::elastic {
namespace {

using std::chrono::microseconds;
using ::testing::HasSubstr;

std::string why(Clan& clan, unsigned number) {
    return clan.nodes[number]->participant->member().core().why();
}

// It has seen that nothing can be decided without those it lost.
bool waits(Clan& clan, unsigned number) {
    return why(clan, number).find("no quorum, and the policy is strict") != std::string::npos;
}

// These and nobody else train.
bool go_on(Clan& clan, const std::vector<unsigned>& numbers) {
    return std::ranges::all_of(numbers, [&](unsigned number) {
        const Relative& node = *clan.nodes[number];
        return node.view->members.size() == numbers.size() && node.steps > node.view->first_step + 1;
    });
}

void allow_no_patience(Clan& clan) {
    clan.strict = true;
    clan.options.core.detect = 500 * cluster::millisecond;
    // Under the other policy the minority would go on alone.
    clan.options.core.fork_after = 100 * cluster::millisecond;
}

TEST(Partition, AMinorityWaitsSaysWhyAndNeedsOnlyResultsWhenItIsBack) {
    Clan clan({.parameters = 400'000, .buffers = 8, .per_sample = microseconds(40'000), .before = [] {}}, 30);
    allow_no_patience(clan);
    ASSERT_TRUE(clan.gather(3)) << clan.log;
    clan.cut({2}, {0, 1});
    const Relative& alone = *clan.nodes[2];
    ASSERT_TRUE(clan.wait([&] { return waits(clan, 2); })) << why(clan, 2) << "\n" << clan.log;
    const ViewPtr last = alone.view;
    const std::uint64_t steps = alone.steps;
    ASSERT_TRUE(clan.wait([&] { return go_on(clan, {0, 1}); })) << clan.log;
    EXPECT_THAT(why(clan, 2), HasSubstr("of view " + cluster::brief(last->name) + " only 1 of 3"));
    EXPECT_EQ(alone.view->name, last->name) << clan.log;
    EXPECT_EQ(alone.steps, steps) << clan.log;

    clan.mend();
    ASSERT_TRUE(clan.wait([&] { return alone.joins == 2 && alone.trains(); })) << clan.log;
    const Joiner::Progress pulled = alone.participant->joiner().progress();
    EXPECT_EQ(pulled.shard_bytes, 0U) << clan.log;
    EXPECT_GT(pulled.result_bytes, 0U) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

TEST(LongPartition, OfTwoHalvesTheLongestStandingMembersGoesOn) {
    Clan clan({.parameters = 400'000, .buffers = 8, .per_sample = microseconds(20'000), .before = [] {}}, 60);
    allow_no_patience(clan);
    ASSERT_TRUE(clan.gather(4)) << clan.log;
    clan.cut({0, 1}, {2, 3});
    ASSERT_TRUE(clan.wait([&] { return go_on(clan, {0, 1}) && (waits(clan, 2) || waits(clan, 3)); })) << clan.log;
    for (const unsigned number : {2U, 3U}) EXPECT_EQ(clan.nodes[number]->view->active_count(), 4U) << clan.log;
    clan.mend();
    for (const unsigned number : {2U, 3U})
        ASSERT_TRUE(clan.wait([&] { return clan.nodes[number]->joins == 2 && clan.nodes[number]->trains(); }))
            << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

}  // namespace
}  // namespace chaos::elastic
