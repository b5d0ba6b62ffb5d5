#include "sim/toy.h"

#include <gtest/gtest.h>

namespace chaos::sim {
namespace {

Gradient whole_gradient(const Toy& toy, const ToyState& state) {
    Gradient gradient;
    add_samples(toy, state.applied(), state.parameters(), {0, toy.batch}, gradient);
    for (float& value : gradient.values) value /= static_cast<float>(toy.batch);
    return gradient;
}

TEST(Toy, KnowsWhichSamplesAStepConsumed) {
    const Toy toy = make_toy(3, 32);
    const ToyState state(toy);
    Gradient gradient;
    add_samples(toy, 0, state.parameters(), {0, 20}, gradient);
    EXPECT_NE(gradient.sample_sum, whole_batch(toy, 0));
    add_samples(toy, 0, state.parameters(), {20, 32}, gradient);
    EXPECT_EQ(gradient.sample_sum, whole_batch(toy, 0));
    EXPECT_EQ(gradient.samples, 32U);
    add_samples(toy, 0, state.parameters(), {5, 6}, gradient);
    EXPECT_NE(gradient.sample_sum, whole_batch(toy, 0));
}

TEST(Toy, ShardsPutTogetherAreTheState) {
    const Toy toy = make_toy(3, 32);
    ToyState state(toy);
    state.apply(*make_result(toy, 0, {}, state.lineage(), whole_gradient(toy, state)));
    const Snapshot snapshot = state.snapshot();
    std::vector<float> copy(snapshot.floats.size());
    for (std::uint32_t shard = 0; shard < toy.shards; ++shard)
        put_shard(toy, take_shard(toy, snapshot.floats, shard), shard, copy);
    EXPECT_EQ(copy, snapshot.floats);
    copy[1] += 1.0F;
    EXPECT_NE(root_of(shard_hashes(toy, copy)), root_of(shard_hashes(toy, snapshot.floats)));
}

TEST(Toy, TrainingMovesTheStateAndItsLineage) {
    const Toy toy = make_toy(3, 32);
    ToyState state(toy);
    const Digest lineage = state.lineage();
    const std::uint64_t hash = state.hash();
    state.apply(*make_result(toy, 0, {}, lineage, whole_gradient(toy, state)));
    EXPECT_EQ(state.applied(), 1U);
    EXPECT_NE(state.lineage(), lineage);
    EXPECT_NE(state.hash(), hash);
}

}  // namespace
}  // namespace chaos::sim
