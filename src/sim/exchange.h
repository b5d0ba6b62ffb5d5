// One all-reduce: partial sums go up each tree of the plan, in child order, and the result comes down, relayed
// verbatim. Every message says which view, step, plan and tree it belongs to.
#pragma once

#include "cluster/view.h"
#include "sim/planner.h"
#include "sim/trainer_edge.h"

#include <cstdint>
#include <vector>

namespace chaos::sim {

class Exchange {
public:
    Exchange(TrainerEdge& edge, const Toy& toy, std::uint64_t step, cluster::ViewPtr view, PlanPtr plan);

    [[nodiscard]] std::uint64_t step() const { return step_; }
    [[nodiscard]] const cluster::ViewPtr& view() const { return view_; }
    [[nodiscard]] bool is(const ExchangeTag& tag) const { return tag.step == step_ && tag.view == view_->name; }

    void contribute(const Gradient& own);
    // Messages for this view and step. False: refused, they belong to another plan or come from where they must not.
    [[nodiscard]] bool take_sum(cluster::NodeId from, const BulkPtr& message);
    [[nodiscard]] bool take_result(cluster::NodeId from, const BulkPtr& message);
    // Whether sums or results travel between this node and the peer.
    [[nodiscard]] bool passes_through(cluster::NodeId peer) const;
    // Whether all of those peers are connected.
    [[nodiscard]] bool connected() const;
    // A new connection stands: what the old one may have lost is said again.
    void say_again(cluster::NodeId peer);

    [[nodiscard]] bool contributed() const { return contributed_; }
    [[nodiscard]] bool complete() const { return results_missing_ == 0; }
    [[nodiscard]] Gradient result() const;  // once complete

private:
    struct Branch {                 // this node's place in one tree
        std::vector<BulkPtr> sums;  // of the children, in their order
        BulkPtr said;               // the sum that went up
        BulkPtr result;
    };
    [[nodiscard]] ExchangeTag tag_of(std::uint32_t tree) const;
    [[nodiscard]] bool knows(const ExchangeTag& tag) const;
    void advance(std::uint32_t tree);
    void pass_down(std::uint32_t tree, const BulkPtr& message);

    TrainerEdge& edge_;
    const Toy& toy_;
    std::uint64_t step_;
    cluster::ViewPtr view_;
    PlanPtr plan_;
    std::uint32_t self_;
    Gradient own_;
    bool contributed_ = false;
    std::vector<Branch> branches_;
    std::size_t results_missing_;
};

}  // namespace chaos::sim
