// What members agree on beside the state: who computes how much, and how long the run is.
#include "clan.h"

#include <gmock/gmock.h>

namespace chaos::elastic {
namespace {

using std::chrono::microseconds;
using testing::HasSubstr;

toy::ToyModel model_of(microseconds per_sample) {
    return {.parameters = 10'000, .buffers = 8, .per_sample = per_sample, .before = [] {}};
}

std::uint64_t share_of(const Relative& node, NodeId who) {
    std::uint64_t samples = 0;
    for (const cluster::Share& share : cluster::shares_of(*node.view, node.view->first_step + 1))
        for (const SampleRange range : share.ranges)
            if (share.node == who) samples += range.end - range.begin;
    return samples;
}

// Of two, the one that founded the cluster decides alone; it has to hear of the other's speed all the same.
TEST(Agreed, SharesFollowMeasuredSpeed) {
    Clan clan(model_of(microseconds(4000)), 3000, 50);
    clan.found(0);
    Relative& founder = *clan.nodes[0];
    ASSERT_TRUE(clan.wait([&] { return founder.steps > 0; })) << clan.log;
    Relative& quick = clan.join(1, {0}, model_of(microseconds(1000)));
    ASSERT_TRUE(clan.wait([&] {
        return founder.view->is_active(clan.home(1).id()) && founder.view->find(clan.home(1).id())->speed > 0;
    })) << clan.log;
    const double ratio = static_cast<double>(share_of(founder, clan.home(1).id())) /
                         static_cast<double>(share_of(founder, clan.home(0).id()));
    EXPECT_GT(ratio, 2.0) << clan.log;
    EXPECT_LT(ratio, 6.0) << clan.log;
    ASSERT_TRUE(clan.wait([&] { return quick.trains(); })) << clan.log;
    clan.expect_one_line();
}

// What it made the others say in that step is not said again when the step is redone without it.
TEST(Agreed, ANewcomerDiesInItsFirstStep) {
    Clan clan(model_of(microseconds(1000)), 300, 24);
    clan.run.train.verify_every = 0;
    ASSERT_TRUE(clan.gather(2)) << clan.log;
    Relative& next = clan.join(2, {0, 1});
    ASSERT_TRUE(clan.wait([&] { return next.first && next.steps == *next.first; })) << clan.log;
    clan.kill(2);
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_sound();
}

TEST(Agreed, WhoseRunIsOfAnotherLengthIsToldSo) {
    Clan clan(model_of(microseconds(500)), 1'000'000, 24);
    clan.found(0);
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[0]->steps > 0; })) << clan.log;
    clan.run.train.steps = 500;
    Relative& other = clan.join(1, {0});
    ASSERT_TRUE(clan.wait([&] { return other.notes.find("train.steps") != std::string::npos; })) << clan.log;
    EXPECT_THAT(other.notes, HasSubstr("its run file has other train.steps")) << clan.log;
    EXPECT_EQ(clan.nodes[0]->view->members.size(), 1U);
}

}  // namespace
}  // namespace chaos::elastic
