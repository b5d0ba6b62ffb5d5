// The taking end of a join. It pulls shards from all its donors at once, one per donor at a time, so that a fast donor
// gives more; each shard is as of some stable step. From the same moment it follows: results of stable steps, applied
// to the shards that are older.
//
//   shard 0   step 7 ──► 8 ──► 9 ──► 10
//   shard 1               step 9 ──► 10        all at 10: the root is compared with what the donors say of step 10
//   shard 2         step 8 ──► 9 ──► 10
//
// More than half of the donors must agree on the root. Where it differs from ours the shards' hashes show which shard
// is wrong; its donor is named, and another one asked.
#pragma once

#include "sim/store.h"
#include "sim/trainer_edge.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace chaos::sim {

class Joiner {
public:
    Joiner(TrainerEdge& edge, const Toy& toy) : edge_(edge), toy_(toy) {}

    [[nodiscard]] bool running() const { return running_; }
    // Pull the state from these; those that are not linked yet are asked when they are.
    void begin(std::vector<cluster::NodeId> donors);
    void change_donors(std::vector<cluster::NodeId> donors);
    void stop();

    void on_data(cluster::NodeId from, const ShardData& data);
    void on_follow(cluster::NodeId from, const Follow& follow);
    void on_timer(std::uint64_t tag);
    void on_link_up(cluster::NodeId peer);
    void on_link_closed(cluster::NodeId peer);

    // The whole state, once its root was compared; taken once.
    [[nodiscard]] std::optional<Snapshot> take_verified();
    // After that: the result of this step, if it came.
    [[nodiscard]] ResultPtr result(std::uint64_t step) const;
    // Results came, but not the one that is next: what is missing will not come any more.
    [[nodiscard]] bool lost_track(std::uint64_t applied) const;

private:
    struct DonorState {
        cluster::NodeId node;
        bool follows = false;  // was asked to let us follow
        bool blamed = false;   // sent a wrong shard or root
        std::int32_t asked = -1;
        Time asked_at = 0;
        Time heard_at = 0;  // when it was asked to be followed, or last spoke of a step
    };
    struct ShardState {
        bool present = false;
        std::uint64_t applied = 0;
        cluster::NodeId from;
    };
    struct Vote {
        cluster::NodeId donor;
        Digest root{};
        std::vector<std::uint64_t> hashes;
    };
    struct Stage {  // of one step
        std::vector<Vote> votes;
        std::vector<std::uint64_t> own;  // hashes of our shards; empty: we were not there
        Digest lineage{};
    };
    void ask_donor(DonorState& donor);
    void follow(DonorState& donor);
    [[nodiscard]] std::int32_t next_shard_for(const DonorState& donor) const;
    void advance();
    void compare(std::uint64_t applied);
    [[nodiscard]] DonorState* find(cluster::NodeId node);
    void fit_in(const StepResult& result, std::uint64_t step);

    TrainerEdge& edge_;
    const Toy& toy_;
    bool running_ = false;
    bool verified_ = false;
    bool taken_ = false;
    std::uint64_t sync_ = 0;
    std::vector<DonorState> donors_;
    std::vector<ShardState> shards_;
    std::vector<float> floats_;
    std::optional<ToyState> workplace_;
    std::uint64_t level_ = 0;  // all shards are at this step, if complete_
    bool complete_ = false;
    std::map<std::uint64_t, ResultPtr> results_;
    std::map<std::uint64_t, Stage> stages_;
};

}  // namespace chaos::sim
