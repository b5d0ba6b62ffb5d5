// What must stay true, whatever happens (DESIGN.md, Agreement). Checked as things happen, at a cost that does not grow
// with the cluster, from what the nodes do and not from what they say:
//
//   I1  one (view, step) has one result, and one lineage one state, on every member
//   I2  a stable step is never undone (cluster/ancestry.h)
//   I3  after the last fault steps advance again, and all train together, within a time that detection, waiting, round
//       trips, retries and steps add up to (ending.cpp)
//   I4  strict: of two children of a view, steps are committed under at most one (cluster/ancestry.h)
//   I5  a joiner's state has the hash that its lineage has elsewhere
//   I6  each committed step holds every sample of its batch exactly once
//   and one name stands for one view; a view has at most one child that a quorum decided; a fork waits its time;
//   nobody commits under a view that it is not active in; nobody is a member whose institution does not vouch for it
//   (world.cpp).
#pragma once

#include "cluster/ancestry.h"
#include "cluster/view.h"
#include "sim/queue.h"
#include "sim/toy.h"
#include "sim/trainer_edge.h"

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace chaos::sim {

class Invariants {
public:
    Invariants(const Toy& toy, bool strict) : toy_(&toy), ancestry_(strict) {}

    // True if nobody had this view before.
    bool adopted(Host host, const cluster::ViewPtr& view);
    // True if nobody had committed this step under this view before.
    bool applied(Host host, cluster::MemberId member, const AppliedStep& step);
    void synced(Host host, const Digest& lineage, std::uint64_t state_hash);
    void fail(const std::string& what);
    void fail(Host host, const std::string& what);

    [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }
    // Null: nobody adopted it, or it is long past.
    [[nodiscard]] cluster::ViewPtr view(const cluster::Name& name) const;
    // The decided view of the highest epoch that no fork leads to; null before there is one.
    [[nodiscard]] const cluster::ViewPtr& youngest() const { return youngest_; }
    [[nodiscard]] std::uint64_t committed_steps() const { return committed_steps_; }
    [[nodiscard]] std::uint64_t forks() const { return ancestry_.forks(); }
    [[nodiscard]] std::uint64_t foundings() const { return ancestry_.foundings(); }

private:
    struct Committed {
        std::uint64_t result_hash = 0;
        std::uint64_t state_hash = 0;
    };
    void same_state(Host host, const Digest& lineage, std::uint64_t state_hash);

    const Toy* toy_;
    cluster::Ancestry ancestry_;
    std::optional<std::string> failure_;
    std::unordered_map<cluster::Name, cluster::ViewPtr, cluster::HashName> views_;  // null when long past
    std::vector<cluster::ViewPtr*> order_;
    std::unordered_map<std::uint64_t, Committed> commits_;     // by (view, step)
    std::unordered_map<std::uint64_t, std::uint64_t> states_;  // by lineage
    cluster::ViewPtr youngest_;
    std::uint64_t committed_steps_ = 0;
    std::uint64_t expected_step_ = ~std::uint64_t{0};
    std::uint64_t expected_sum_ = 0;
};

}  // namespace chaos::sim
