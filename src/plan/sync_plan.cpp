#include "plan/sync_plan.h"

#include "base/assert.h"
#include "base/hash.h"
#include "plan/overlay.h"
#include "plan/say.h"
#include "plan/sync_search.h"

#include <algorithm>
#include <deque>

namespace chaos::plan {
namespace {

// Named by the hash, so that members with different planners refuse each other's messages.
constexpr std::uint64_t planner_version = 2;

std::uint64_t hash_of(const SyncRequest& request, const Overlay& overlay, const SyncPlan& plan) {
    std::vector<std::uint64_t> words{planner_version, overlay.size(), request.bytes, request.chunk_bytes};
    for (const std::uint32_t member : overlay.member_of) words.push_back(request.members[member].id);
    for (const SyncTree& tree : plan.trees) {
        words.push_back(tree.first_byte);
        words.push_back(tree.bytes);
        for (const std::uint32_t member : overlay.member_of) words.push_back(overlay.rank_of[tree.parent[member]]);
    }
    // Little-endian on every machine.
    std::vector<std::byte> canonical;
    canonical.reserve(words.size() * 8);
    for (const std::uint64_t word : words) {
        for (int shift = 0; shift < 64; shift += 8) canonical.push_back(static_cast<std::byte>(word >> shift & 0xff));
    }
    return xxh3(canonical);
}

void explain(const SyncRequest& request, const Overlay& overlay, const SyncSearch& search, SyncPlan& plan) {
    const SyncSearch::Best& best = search.best();
    std::vector<Portion> portions;
    portions.reserve(best.trees.size());
    for (std::size_t i = 0; i < best.trees.size(); ++i) portions.push_back({&best.trees[i], best.bytes[i]});
    const std::uint64_t load = load_ns(overlay, portions);
    plan.reasons.push_back(std::string(name_of(best.shape)) + " of " + say_count(best.trees.size(), "tree") + ": " +
                           say_time(best.ns) + " predicted, " + say_time(load) + " of it load and " +
                           say_time(best.ns - std::min(load, best.ns)) +
                           " filling the pipeline; no plan takes less than " + say_time(plan.bound_ns));
    std::string others;
    for (std::size_t i = 0; i < sync_shapes; ++i) {
        if (search.times()[i] == unlimited || i == static_cast<std::size_t>(best.shape)) continue;
        others += (others.empty() ? "" : ", ") + std::string(name_of(static_cast<SyncShape>(i))) + " " +
                  say_time(search.times()[i]);
    }
    if (!others.empty()) plan.reasons.push_back("the best of other shapes: " + others);
    std::vector<std::uint64_t> loads(overlay.links.size());
    for (const Portion& portion : portions) {
        for (const std::uint32_t link : portion.tree->link) {
            if (link != nobody) loads[link] += portion.bytes;
        }
    }
    for (std::size_t i = 0; i < loads.size(); ++i) {
        const OverlayLink& link = overlay.links[i];
        if (loads[i] == 0 || transfer_ns(loads[i], link.rate) < load) continue;
        plan.reasons.push_back("the busiest link joins members " +
                               std::to_string(request.members[overlay.member_of[link.low]].id) + " and " +
                               std::to_string(request.members[overlay.member_of[link.high]].id) + " (" +
                               say_rate(link.rate) + ")");
        return;
    }
    plan.reasons.emplace_back("the busiest resource is a member's cap on ingress or egress");
}

SyncPlan finish(const SyncRequest& request, const Overlay& overlay, const SyncSearch& search) {
    const SyncSearch::Best& best = search.best();
    SyncPlan plan;
    plan.shape = best.shape;
    plan.predicted_ns = best.ns;
    plan.bound_ns = std::min(search.bound_ns(), best.ns);
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < best.trees.size(); ++i) {
        SyncTree& tree = plan.trees.emplace_back();
        tree.first_byte = begin;
        tree.bytes = best.bytes[i];
        begin += best.bytes[i];
        tree.parent.resize(overlay.size());
        for (std::uint32_t rank = 0; rank < overlay.size(); ++rank) {
            tree.parent[overlay.member_of[rank]] = overlay.member_of[best.trees[i].parent[rank]];
        }
    }
    CHAOS_ASSERT(begin == request.bytes);
    plan.hash = hash_of(request, overlay, plan);
    explain(request, overlay, search, plan);
    return plan;
}

}  // namespace

const char* name_of(SyncShape shape) {
    switch (shape) {
        case SyncShape::alone:
            return "alone";
        case SyncShape::tree:
            return "tree";
        case SyncShape::star:
            return "star";
        case SyncShape::ring:
            return "ring";
        case SyncShape::direct:
            return "direct exchange";
        case SyncShape::mixture:
            return "mixture";
    }
    return "unknown";
}

Result<SyncPlan> plan_sync(const SyncRequest& request) {
    CHAOS_TRY(const Overlay overlay, read_overlay(request));
    if (overlay.size() > 1 && request.bytes > 0) {
        SyncSearch search(request, overlay);
        search.run();
        return finish(request, overlay, search);
    }
    SyncPlan plan;
    if (request.bytes > 0) plan.trees.push_back({0, request.bytes, {0}});
    plan.hash = hash_of(request, overlay, plan);
    plan.reasons.emplace_back(request.bytes == 0 ? "there is nothing to reduce" : "alone: nothing has to travel");
    return plan;
}

std::uint64_t predict_sync_ns(const SyncRequest& request, std::span<const SyncTree> trees) {
    const auto overlay = read_overlay(request);
    CHAOS_ASSERT(overlay.ok());
    std::deque<Tree> ranked;
    std::vector<Portion> portions;
    for (const SyncTree& tree : trees) {
        std::vector<std::uint32_t> parent(tree.parent.size());
        for (std::uint32_t i = 0; i < parent.size(); ++i)
            parent[overlay->rank_of[i]] = overlay->rank_of[tree.parent[i]];
        ranked.push_back(tree_of_parents(*overlay, std::move(parent)));
        portions.push_back({&ranked.back(), tree.bytes});
    }
    return predict_ns(*overlay, portions);
}

}  // namespace chaos::plan
