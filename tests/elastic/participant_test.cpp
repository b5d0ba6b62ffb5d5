// Whole members that train together: one founds, others join while it trains, leave, and die.
#include "elastic/participant.h"

#include "elastic/clan.h"

namespace chaos::elastic {
namespace {

using std::chrono::microseconds;

toy::ToyModel slow_model() {
    return {.parameters = 400'000, .buffers = 8, .per_sample = microseconds(500), .before = [] {}};
}

TEST(Participant, TrainsAlone) {
    Clan clan({}, 30);
    Relative& node = clan.found(0);
    ASSERT_TRUE(clan.wait([&] { return node.has_finished; })) << clan.log;
    EXPECT_EQ(node.losses.size(), 31U);
    EXPECT_LT(node.losses.at(29), node.losses.at(0));
    EXPECT_EQ(node.saved_steps, (std::vector<std::uint64_t>{10, 20, 30}));

    // With the bits of a trainer that knows nothing of clusters.
    Trainer alone = Relative::open(clan.run, clan.model);
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(alone.step());
    const auto memory = alone.engine().arena().all();
    EXPECT_TRUE(std::ranges::equal(memory, node.memory()));
}

TEST(Participant, JoinsWhileTheOthersTrain) {
    Clan clan(slow_model());
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(3)) << clan.log;
    Relative& second = clan.join(1, {0});
    ASSERT_TRUE(clan.wait([&] { return second.first && second.steps > *second.first + 3; })) << clan.log;
    EXPECT_GT(*second.synced_at, 0U);
    clan.expect_one_line();
    Relative& third = clan.join(2, {1});
    ASSERT_TRUE(clan.wait([&] { return third.first && third.steps > *third.first + 3; })) << clan.log;
    ASSERT_TRUE(clan.all_reach(clan.most_steps())) << clan.log;
    clan.expect_one_line();
    for (const auto& [number, node] : clan.nodes) EXPECT_FALSE(node->has_failed) << clan.log;
}

}  // namespace
}  // namespace chaos::elastic
