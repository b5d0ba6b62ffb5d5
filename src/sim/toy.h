// What is trained in a simulation: a small vector under the real update rules, with real step records and lineages. A
// sample's gradient is a pure function of (seed, step, sample, parameters). Next to the floats a result carries exact
// integers, the sum of a hash of each sample that went into it and their number: so it is known to the last sample
// what a step consumed (I6), whoever computed it and however often it was redone.
#pragma once

#include "cluster/view.h"
#include "run/run.h"
#include "state/arena.h"
#include "state/record.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace chaos::sim {

using cluster::SampleRange;

// The run, the same for all nodes.
struct Toy {
    std::uint64_t seed = 0;
    std::uint32_t batch = 64;
    std::uint32_t parameters = 48;
    std::uint32_t shards = 8;
    std::uint64_t result_bytes = 1 << 20;  // what R(s) weighs on the wire
    std::uint64_t state_bytes = 3 << 20;
    run::Run run;
    state::Manifest manifest;
    Digest name{};  // the run's; also the first lineage

    [[nodiscard]] std::uint32_t shard_begin(std::uint32_t shard) const { return parameters * shard / shards; }
};
[[nodiscard]] Toy make_toy(std::uint64_t seed, std::uint32_t batch);

// The sum of the hashes of all samples of `step`, each once.
[[nodiscard]] std::uint64_t whole_batch(const Toy& toy, std::uint64_t step);

// A sum of gradients and what is in it.
struct Gradient {
    std::vector<float> values;
    std::uint64_t sample_sum = 0;
    std::uint64_t samples = 0;
};
void add_samples(const Toy& toy, std::uint64_t step, std::span<const float> parameters, SampleRange range,
                 Gradient& gradient);

// R(s): the averaged gradient and the step's record.
struct StepResult {
    Gradient mean;
    state::StepRecord record;
    Digest lineage_before{};
    Digest lineage{};  // after it
};
using ResultPtr = std::shared_ptr<const StepResult>;
[[nodiscard]] ResultPtr make_result(const Toy& toy, std::uint64_t step, const Digest& view,
                                    const Digest& lineage_before, Gradient mean);

// A copy of the state at one step, as a checkpoint or a donor keeps it.
struct Snapshot {
    std::uint64_t applied = 0;
    Digest lineage{};
    std::vector<float> floats;
};

// The state of one node.
class ToyState {
public:
    explicit ToyState(const Toy& toy);

    [[nodiscard]] std::uint64_t applied() const { return applied_; }
    [[nodiscard]] const Digest& lineage() const { return lineage_; }
    [[nodiscard]] std::span<const float> parameters() const { return arena_.parameters(); }
    [[nodiscard]] std::uint64_t hash() const;

    void apply(const StepResult& result);
    [[nodiscard]] Snapshot snapshot() const;
    void load(const Snapshot& snapshot);

private:
    const Toy* toy_;
    state::Arena arena_;
    std::uint64_t applied_ = 0;
    Digest lineage_{};
};

// Shards: the parameters of one range together with their moments.
[[nodiscard]] std::vector<float> take_shard(const Toy& toy, std::span<const float> floats, std::uint32_t shard);
void put_shard(const Toy& toy, std::span<const float> shard_floats, std::uint32_t shard, std::span<float> floats);
// XXH3 of each shard, and over those the root.
[[nodiscard]] std::vector<std::uint64_t> shard_hashes(const Toy& toy, std::span<const float> floats);
[[nodiscard]] Digest root_of(std::span<const std::uint64_t> shard_hashes);

}  // namespace chaos::sim
