#include "sim/planner.h"

#include "base/hash.h"
#include "base/planted.h"
#include "plan/view_request.h"

#include <algorithm>

namespace chaos::sim {
namespace {

using cluster::NodeId;
using cluster::View;

constexpr std::size_t max_remembered = 24;

// A breadth-first tree: cheap, and as good as any for the protocol.
Result<std::vector<std::uint32_t>> breadth_first(const plan::SyncRequest& request, std::uint32_t root) {
    const auto count = static_cast<std::uint32_t>(request.members.size());
    std::vector<std::vector<std::uint32_t>> near(count);
    for (const plan::SyncLink& link : request.links) {
        near[link.a].push_back(link.b);
        near[link.b].push_back(link.a);
    }
    std::vector<std::uint32_t> parent(count, count);
    std::vector<std::uint32_t> order = {root};
    parent[root] = root;
    for (std::size_t i = 0; i < order.size(); ++i) {
        std::sort(near[order[i]].begin(), near[order[i]].end());
        for (const std::uint32_t next : near[order[i]]) {
            if (parent[next] != count) continue;
            parent[next] = order[i];
            order.push_back(next);
        }
    }
    if (order.size() != count) return Error{"the active members are not connected by links of the view"};
    return parent;
}

// The planted bug: the member that is closest to all others, by a sum of floats that each node begins with itself.
// Equal sums are rounded differently in another order, so ties are broken differently.
std::uint32_t closest_by_floats(const plan::SyncRequest& request, std::uint32_t self) {
    const auto count = static_cast<std::uint32_t>(request.members.size());
    std::uint32_t best = 0;
    float best_closeness = 0;
    for (std::uint32_t root = 0; root < count; ++root) {
        const auto parent = breadth_first(request, root);
        if (!parent) return 0;
        float closeness = 0;
        for (std::uint32_t i = 0; i < count; ++i) {
            float hops = 1;
            for (std::uint32_t at = (self + i) % count; at != root; at = (*parent)[at]) ++hops;
            closeness += 1 / hops;
        }
        if (closeness > best_closeness) {
            best_closeness = closeness;
            best = root;
        }
    }
    return best;
}

}  // namespace

std::uint32_t Plan::index_of(NodeId node) const {
    const auto found = std::lower_bound(members.begin(), members.end(), node);
    return static_cast<std::uint32_t>(found != members.end() && *found == node
                                          ? found - members.begin()
                                          : static_cast<std::ptrdiff_t>(members.size()));
}

PlanPtr Planner::plan(const View& view) {
    for (auto entry = plans_.begin(); entry != plans_.end(); ++entry) {
        if (entry->view != view.name) continue;
        plans_.splice(plans_.begin(), plans_, entry);
        return entry->plan;
    }
    auto made = std::make_shared<Plan>();
    auto [request, members] = plan::sync_request_of(view, toy_->result_bytes);
    made->members = std::move(members);
    std::vector<plan::SyncTree> trees;
    if (kind_ == PlanKind::tree || made->members.size() == 1) {
        std::uint32_t root = 0;  // the member with the smallest id
        if (CHAOS_PLANTED(float_in_plan) && self_ && made->index_of(*self_) < made->members.size())
            root = closest_by_floats(request, made->index_of(*self_));
        auto parent = breadth_first(request, root);
        if (parent) {
            made->hash = xxh3(std::as_bytes(std::span(*parent)));
            trees.push_back({.first_byte = 0, .bytes = request.bytes, .parent = std::move(*parent)});
        } else {
            made->refusal = parent.error().message;
        }
    } else {
        auto planned = plan::plan_sync(request);
        if (planned) {
            made->hash = planned->hash;
            trees = std::move(planned->trees);
        } else {
            made->refusal = planned.error().message;
        }
    }
    for (plan::SyncTree& tree : trees) {
        PlanTree& mine = made->trees.emplace_back();
        const auto scaled = [&](std::uint64_t byte) {
            return static_cast<std::uint32_t>(byte * toy_->parameters / request.bytes);
        };
        mine.first = scaled(tree.first_byte);
        mine.count = scaled(tree.first_byte + tree.bytes) - mine.first;
        mine.bytes = tree.bytes;
        mine.children.resize(tree.parent.size());
        for (std::uint32_t i = 0; i < tree.parent.size(); ++i)
            if (tree.parent[i] != i) mine.children[tree.parent[i]].push_back(i);
        mine.parent = std::move(tree.parent);
    }
    plans_.push_front({view.name, made});
    if (plans_.size() > max_remembered) plans_.pop_back();
    return made;
}

std::shared_ptr<const std::vector<cluster::Share>> Planner::shares(const View& view, std::uint64_t step) {
    for (auto entry = shares_.begin(); entry != shares_.end(); ++entry) {
        if (entry->step != step || entry->view != view.name) continue;
        shares_.splice(shares_.begin(), shares_, entry);
        return entry->shares;
    }
    std::vector<cluster::Share> made = cluster::shares_of(view, step);
    std::sort(made.begin(), made.end(), [](const auto& x, const auto& y) { return x.node < y.node; });
    shares_.push_front({view.name, step, std::make_shared<const std::vector<cluster::Share>>(std::move(made))});
    if (shares_.size() > max_remembered) shares_.pop_back();
    return shares_.front().shares;
}

}  // namespace chaos::sim
