// The overlay as the sync planner sees it, and trees on it. Members are ranks here: their places in ascending order of
// id, so that nothing depends on the order in which a request lists them.
#pragma once

#include "plan/sync_plan.h"

#include <cstdint>
#include <span>
#include <vector>

namespace chaos::plan {

inline constexpr std::uint32_t nobody = 0xffffffff;

struct OverlayLink {
    std::uint32_t low = 0;  // the end of lower rank
    std::uint32_t high = 0;
    std::uint64_t to_high = 0;  // bytes per second
    std::uint64_t to_low = 0;
    std::uint64_t delay_ns = 0;
    std::uint64_t rate = 0;  // of the slower direction: all that loads depend on

    // A full chunk on its way, without delay, where the receiver has nobody else to listen to.
    std::uint64_t chunk_to_high_ns = 0;
    std::uint64_t chunk_to_low_ns = 0;
    // There and back with a full chunk; at least 1.
    std::uint64_t round_ns = 0;
};

struct Neighbour {
    std::uint32_t rank = 0;
    std::uint32_t link = 0;
};

struct Overlay {
    std::uint64_t bytes = 0;
    std::uint64_t chunk_bytes = 0;         // at most `bytes`
    std::vector<std::uint32_t> member_of;  // rank -> index in the request
    std::vector<std::uint32_t> rank_of;
    std::vector<std::uint64_t> ingress;  // per rank
    std::vector<std::uint64_t> egress;
    std::vector<std::uint64_t> cap;    // the smaller of both
    bool capped = false;               // whether any member has a cap
    std::vector<OverlayLink> links;    // usable ones, by (low, high)
    std::vector<std::uint32_t> first;  // neighbours of rank r: [first[r], first[r + 1])
    std::vector<Neighbour> neighbours;

    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(member_of.size()); }
    [[nodiscard]] std::span<const Neighbour> of(std::uint32_t rank) const {
        return {neighbours.data() + first[rank], neighbours.data() + first[rank + 1]};
    }
};

// Refuses what makes no sense, and an overlay in pieces.
[[nodiscard]] Result<Overlay> read_overlay(const SyncRequest& request);

// A spanning tree with a root, in ranks.
struct Tree {
    std::uint32_t root = 0;
    std::vector<std::uint32_t> parent;  // the root's is itself
    std::vector<std::uint32_t> link;    // to the parent; the root's is `nobody`
    std::vector<std::uint32_t> order;   // parents before children, the root first

    friend bool operator==(const Tree& a, const Tree& b) { return a.root == b.root && a.parent == b.parent; }
};

// A tree made of the given links, which must span, with the root that fills fastest: with few members every root is
// tried; with more, the middle of the tree's longest way is taken.
inline constexpr std::uint32_t most_members_to_try_all_roots = 24;
[[nodiscard]] Tree root_tree(const Overlay& overlay, std::span<const std::uint32_t> links);

// The same with the given root.
[[nodiscard]] Tree hang_tree(const Overlay& overlay, std::span<const std::uint32_t> links, std::uint32_t root);

// A tree from its parents; `order` and `link` follow.
[[nodiscard]] Tree tree_of_parents(const Overlay& overlay, std::vector<std::uint32_t> parent);

// A chunk of q bytes on its way over a link, without delay, where neither end shares its cap with another hop.
[[nodiscard]] std::uint64_t hop_ns(const Overlay& overlay, const OverlayLink& link, bool to_high, std::uint64_t q);

// The same from all of a member's children at once (its ingress) or to all of them (its egress).
[[nodiscard]] std::uint64_t shared_hop_ns(std::uint64_t cap, std::uint64_t q, std::uint32_t children);

// The fill of sync_plan.h's cost model, for chunks of q bytes.
[[nodiscard]] std::uint64_t fill_ns(const Overlay& overlay, const Tree& tree, std::uint64_t q);

struct Portion {
    const Tree* tree = nullptr;
    std::uint64_t bytes = 0;
};
[[nodiscard]] std::uint64_t load_ns(const Overlay& overlay, std::span<const Portion> portions);
[[nodiscard]] std::uint64_t predict_ns(const Overlay& overlay, std::span<const Portion> portions);

}  // namespace chaos::plan
