// Plans and shares of a view. They are pure functions of the view, so most simulations compute them once for all nodes:
// whichever asks first computes what each would have computed. In others each node has a planner of its own, and where
// two come to different plans, the exchange refuses the other's messages.
#pragma once

#include "cluster/view.h"
#include "sim/toy.h"

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chaos::sim {

// One tree of a sync plan, over the plan's members.
struct PlanTree {
    std::uint32_t first = 0;  // the parameters it reduces
    std::uint32_t count = 0;
    std::uint64_t bytes = 0;  // their share of the result on the wire
    std::vector<std::uint32_t> parent;
    std::vector<std::vector<std::uint32_t>> children;  // ascending: the order in which sums are added
};

struct Plan {
    std::vector<cluster::NodeId> members;  // the active ones, ascending
    std::vector<PlanTree> trees;
    std::uint64_t hash = 0;
    std::string refusal;  // not empty: there is no plan, and why

    [[nodiscard]] std::uint32_t index_of(cluster::NodeId node) const;  // members.size(): is none
};
using PlanPtr = std::shared_ptr<const Plan>;

enum class PlanKind : std::uint8_t { tree, sync_plan };

class Planner {
public:
    // `self`: the node whose planner this is; absent: everybody's.
    Planner(const Toy& toy, PlanKind kind, std::optional<cluster::NodeId> self)
        : toy_(&toy), kind_(kind), self_(self) {}

    [[nodiscard]] PlanPtr plan(const cluster::View& view);
    // Shares sorted by node.
    [[nodiscard]] std::shared_ptr<const std::vector<cluster::Share>> shares(const cluster::View& view,
                                                                            std::uint64_t step);

private:
    struct PlanEntry {
        cluster::Name view{};
        PlanPtr plan;
    };
    struct SharesEntry {
        cluster::Name view{};
        std::uint64_t step = 0;
        std::shared_ptr<const std::vector<cluster::Share>> shares;
    };
    const Toy* toy_;
    PlanKind kind_;
    std::optional<cluster::NodeId> self_;
    std::list<PlanEntry> plans_;  // the latest asked for first
    std::list<SharesEntry> shares_;
};

}  // namespace chaos::sim
