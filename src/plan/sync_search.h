// The search behind plan_sync: tries one kind of plan after another and keeps the fastest. sync_search.cpp holds the
// plain kinds (a tree, a direct exchange, a ring), sync_mixture.cpp the mixtures.
#pragma once

#include "plan/overlay.h"
#include "plan/trees.h"

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace chaos::plan {

// How hard to search, by the number of members: a small cluster can afford to come close to the best plan, a large one
// must not let its members wait for it.
struct SyncEffort {
    std::uint32_t most_members = 0;
    bool limits_fill = false;           // search again under ever smaller limits on the fill
    std::uint64_t limit_numerator = 0;  // each at most numerator / 16 of the last
    std::uint64_t all_trees = 0;        // look at every tree where there are at most so many
    std::uint32_t swaps = 0;            // of links, to better a single tree
    std::uint32_t shallow_trees = 0;    // to start with: trees of shortest ways
    std::uint32_t cheap_trees = 0;      // to start with: spanning trees that avoid what the others use
    std::uint32_t generated_trees = 0;  // by the linear program's prices
    std::uint32_t trial_trees = 0;      // the same, for a first look at a limit
    std::uint32_t roots = 0;            // to look below for each tree within a limit
    std::uint32_t ring_steps = 0;       // of the search for a cycle, per member; 0: no ring
    std::uint64_t work = 0;  // on mixtures: entries of the linear program, links looked at; a nanosecond or two each
};

inline constexpr std::size_t sync_shapes = 6;

class SyncSearch {
public:
    SyncSearch(const SyncRequest& request, const Overlay& overlay);

    void run();

    // What was found.
    struct Best {
        SyncShape shape = SyncShape::tree;
        std::vector<Tree> trees;
        std::vector<std::uint64_t> bytes;  // of each tree
        std::uint64_t ns = unlimited;
    };
    [[nodiscard]] const Best& best() const { return best_; }
    // The fastest of each shape that was looked at; `unlimited` where none was.
    [[nodiscard]] const std::array<std::uint64_t, sync_shapes>& times() const { return times_; }
    [[nodiscard]] std::uint64_t bound_ns() const { return saturating_add(load_bound_ns_, fill_bound_ns_); }

private:
    // A tree of the pool.
    struct Known {
        Tree tree;
        std::uint64_t fill_ns = 0;
    };

    void bound_loads();
    void bound_fill();
    void try_tree(const Tree& tree);
    void try_single_trees();
    void try_all_trees();
    void better_single_tree();
    [[nodiscard]] std::uint64_t tree_load_ns(std::span<const std::uint32_t> links) const;
    void try_direct_exchange();
    void try_ring();
    void try_cycle(const std::vector<std::uint32_t>& cycle);
    [[nodiscard]] std::vector<std::vector<std::uint32_t>> promising_cycles() const;

    void try_mixtures();
    void try_shallow_mixture(std::uint64_t fill);
    std::uint64_t try_mixture(std::uint64_t most_fill_ns, std::uint32_t generated_trees);
    void spread_trees();
    void spread_trees_within(std::uint64_t most_fill_ns);
    std::optional<Tree> cheapest_within(std::span<const std::uint64_t> prices, std::uint64_t most_fill_ns);
    std::optional<std::pair<Tree, std::uint64_t>> cheapest_below(std::uint32_t root,
                                                                 std::span<const std::uint64_t> prices,
                                                                 std::uint64_t most_fill_ns);
    // A plan that fills slower than this cannot be better than the best so far.
    [[nodiscard]] std::uint64_t useful_fill() const { return best_.ns - std::min(best_.ns, load_bound_ns_); }
    void spend(std::uint64_t work) { work_ -= std::min(work_, work); }

    const Known& know(Tree tree);
    void consider(SyncShape shape, std::span<const Tree* const> trees, std::span<const std::uint64_t> weights);
    [[nodiscard]] std::vector<Portion> portions_of(std::span<const Tree* const> trees,
                                                   std::span<const std::uint64_t> weights) const;

    const SyncRequest& request_;
    const Overlay& overlay_;
    const SyncEffort& effort_;
    TreeFinder finder_;
    std::deque<Known> pool_;  // grows without moving its trees
    bool knows_all_ = false;  // the pool holds every tree
    std::uint64_t work_ = 0;  // left for mixtures

    std::uint64_t least_chunk_ns_ = unlimited;  // on the fastest hop
    std::uint32_t next_root_ = 0;               // to look below

    std::uint64_t load_bound_ns_ = 0;
    std::uint64_t fill_bound_ns_ = 0;

    Best best_;
    std::array<std::uint64_t, sync_shapes> times_{};
};

}  // namespace chaos::plan
