// The giving end: shards and stable results for joiners that follow this node, and results for members that are short
// of one. Only stable steps go to joiners, so nothing they get is ever undone.
#pragma once

#include "sim/faults.h"
#include "sim/store.h"
#include "sim/trainer_edge.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace chaos::sim {

class Donor {
public:
    Donor(TrainerEdge& edge, const Store& store) : edge_(edge), store_(store) {}

    void lie(std::uint32_t lies) { lies_ = lies; }
    void on_ask(cluster::NodeId from, const ShardAsk& ask);
    void on_ask(cluster::NodeId from, const FollowAsk& ask);
    void on_ask(cluster::NodeId from, const ResultAsk& ask);

    void applied(std::uint64_t step);         // answers those who waited for it
    void stable(std::uint64_t count);         // streams to those who follow
    void adopted(const cluster::View& view);  // who is no joiner any more is not followed up
    void forget(cluster::NodeId peer);
    void clear();

private:
    struct Follower {
        cluster::NodeId node;
        std::uint64_t sync = 0;
        std::uint64_t sent = 0;  // the count of steps it was told of
    };
    [[nodiscard]] bool describe(std::uint64_t applied, Follow& follow) const;

    TrainerEdge& edge_;
    const Store& store_;
    std::vector<Follower> followers_;
    std::vector<std::pair<std::uint64_t, cluster::NodeId>> waiting_;  // for the result of a step
    std::uint32_t lies_ = 0;
};

}  // namespace chaos::sim
