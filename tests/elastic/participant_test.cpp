// Whole members that train together: one founds, others join while it trains, leave, and die.
#include "elastic/participant.h"

#include "elastic/clan.h"

#include <random>

namespace chaos::elastic {
namespace {

using std::chrono::microseconds;

toy::ToyModel slow_model() {
    return {.parameters = 400'000, .buffers = 8, .per_sample = microseconds(1000), .before = [] {}};
}

TEST(Participant, TrainsAlone) {
    Clan clan({}, 30);
    Relative& node = clan.found(0);
    ASSERT_TRUE(clan.wait([&] { return node.has_finished; })) << clan.log;
    EXPECT_EQ(node.losses.size(), 30U);
    EXPECT_LT(node.losses.at(29), node.losses.at(0));
    EXPECT_EQ(node.saved_steps, (std::vector<std::uint64_t>{10, 20, 30}));

    // With the bits of a trainer that knows nothing of clusters.
    Trainer alone = Relative::open(clan.run, clan.model);
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(alone.step());
    const auto memory = alone.engine().arena().all();
    EXPECT_TRUE(std::ranges::equal(memory, node.memory()));
    clan.expect_sound();
}

TEST(Participant, JoinsWhileTheOthersTrain) {
    Clan clan(slow_model(), 250);
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(3)) << clan.log;
    Relative& second = clan.join(1, {0});
    ASSERT_TRUE(clan.wait([&] { return second.trains(); })) << clan.log;
    EXPECT_GT(*second.synced_at, 0U);
    clan.expect_one_line();
    Relative& third = clan.join(2, {1});
    ASSERT_TRUE(clan.wait([&] { return third.trains(); })) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

TEST(Participant, SurvivesTheDeathOfOneOfThree) {
    const auto seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (int round = 0; round < 20; ++round) {
        Clan clan({.parameters = 60'000, .buffers = 8, .per_sample = microseconds(400), .before = [] {}}, 500);
        ASSERT_TRUE(clan.gather(3)) << clan.log;
        const std::uint64_t moment = clan.most_steps() + random() % 3;
        const auto turns = random() % 400;
        ASSERT_TRUE(clan.all_reach(moment)) << clan.log;
        std::uint64_t turned = 0;
        ASSERT_TRUE(clan.wait([&] { return turned++ == turns; }));
        clan.kill(static_cast<unsigned>(random() % 3));
        ASSERT_TRUE(clan.all_finish()) << clan.log;
        clan.expect_one_line();
        clan.expect_sound();
        if (HasFailure()) return;
    }
}

TEST(Participant, LeavesWithoutLosingAStep) {
    Clan clan(slow_model(), 300);
    ASSERT_TRUE(clan.gather(3)) << clan.log;
    clan.nodes[1]->participant->member().tell(cluster::LeaveCommand{});
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[1]->has_left; })) << clan.log;
    clan.kill(1);
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    // Nothing had to be settled.
    for (const auto& [number, node] : clan.nodes) EXPECT_FALSE(node->view->settlement) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

TEST(Participant, SeveralJoinAtOnceSomeByOnesThatJoinThemselves) {
    Clan clan(slow_model(), 250);
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(3)) << clan.log;
    clan.join(1, {0});
    clan.join(2, {0});
    clan.join(3, {1});
    clan.join(4, {3});
    ASSERT_TRUE(clan.wait([&] {
        return std::ranges::all_of(clan.nodes,
                                   [](const auto& node) { return node.first == 0 || node.second->trains(); });
    })) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

}  // namespace
}  // namespace chaos::elastic
