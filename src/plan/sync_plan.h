// The sync plan: how gradients travel. It is a list of (byte range, rooted tree over the overlay's links). Within its
// range, partial sums go up each tree (a member adds its children's sums to its own, children in ascending order of
// their ids) and the encoded result comes down the same links. One tree from everybody to one member is a star, n paths
// along a cycle are a ring, n stars are a direct exchange, and any mixture of trees is a plan too:
//
//      0          range 0 ..  60 %: up to 0            0---1
//     / \         range 60 .. 100 %: up to 3           |        a different tree, whose links the first leaves idle
//    1   2---3                                         2---3
//
// What a plan costs. A tree that carries x bytes loads each of its links with x bytes upwards and x downwards (links
// are full duplex), and each member with x bytes in and x bytes out per tree link it touches. With chunks of
// q = min(chunk_bytes, x) bytes,
//
//   time = the largest load / rate of any directed link, or of any member's ingress or egress
//        + the largest fill of any tree
//   fill = the longest way up to the root + the longest way down from it - one chunk at the tree's fastest hop
//   way  = the sum over its hops of delay + the chunk's time on that hop
//
// where a chunk's time on a hop is q / rate, or longer where an end's cap is shared: a parent receives a chunk from
// each of its children at once, and sends one to each. The chunk that is taken off is the one that the load has
// counted already. Each quotient is rounded up to a nanosecond.
//
// Since a tree loads both directions of a link alike, only the slower direction counts; the best mixture is a packing
// of spanning trees, whose weights are a linear program. Trees are found by column generation (the cheapest tree under
// the program's prices), for several limits on the fill. The same prices prove the bound: for any prices p, every plan
// takes at least bytes * (cost of the cheapest tree) / (sum of p * rate).
// The effort is bounded by the overlay's size, so that a changed view has its plan within about a millisecond.
#pragma once

#include "base/result.h"
#include "plan/integers.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace chaos::plan {

struct SyncMember {
    std::uint64_t id = 0;  // breaks ties; unique
    std::uint64_t egress_bytes_per_s = unlimited;
    std::uint64_t ingress_bytes_per_s = unlimited;
};

// Ends are indexes into SyncRequest::members. At most one link between two members. A direction of rate 0 makes the
// link useless: no tree uses it.
struct SyncLink {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::uint64_t a_to_b_bytes_per_s = 0;
    std::uint64_t b_to_a_bytes_per_s = 0;
    std::uint64_t delay_ns = 0;
};

inline constexpr std::uint32_t max_sync_members = 1U << 14;
inline constexpr std::uint32_t max_sync_links = 1U << 16;

struct SyncRequest {
    std::vector<SyncMember> members;
    std::vector<SyncLink> links;
    std::uint64_t bytes = 0;  // to reduce
    std::uint64_t chunk_bytes = std::uint64_t{256} << 10;
    std::uint64_t align_bytes = 64;  // ranges begin at multiples of this
};

struct SyncTree {
    std::uint64_t first_byte = 0;
    std::uint64_t bytes = 0;
    std::vector<std::uint32_t> parent;  // index of each member's parent; the root's is itself

    friend bool operator==(const SyncTree&, const SyncTree&) = default;
};

enum class SyncShape { alone, tree, star, ring, direct, mixture };
[[nodiscard]] const char* name_of(SyncShape shape);

struct SyncPlan {
    std::vector<SyncTree> trees;  // ranges ascending, without gaps; at least one byte each (none if bytes = 0)
    SyncShape shape = SyncShape::alone;
    std::uint64_t predicted_ns = 0;
    std::uint64_t bound_ns = 0;  // no plan is predicted to be faster
    // XXH3 over the planner's version, the ids and the trees: the same for every order in which members and links are
    // listed. Every collective message carries it.
    std::uint64_t hash = 0;
    std::vector<std::string> reasons;  // for people
};

// Refuses in words: an overlay in pieces, or a request that makes no sense.
[[nodiscard]] Result<SyncPlan> plan_sync(const SyncRequest& request);

// The cost of any set of trees over the request's links, by the model above: what plan_sync minimises. The request
// must be one that plan_sync accepts, and the trees must span by its usable links.
[[nodiscard]] std::uint64_t predict_sync_ns(const SyncRequest& request, std::span<const SyncTree> trees);

}  // namespace chaos::plan
