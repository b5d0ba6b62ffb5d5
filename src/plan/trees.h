// Finding spanning trees: the cheapest, the shallowest, and the cheapest of those that fill within a limit.
#pragma once

#include "plan/overlay.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace chaos::plan {

// All spanning trees as lists of links, if there are at most `most`.
[[nodiscard]] std::optional<std::vector<std::vector<std::uint32_t>>> all_trees(const Overlay& overlay,
                                                                               std::uint64_t most);

struct BoundedTree {
    std::uint32_t root = 0;
    std::vector<std::uint32_t> links;
    std::uint64_t price = 0;  // of all links
};

// Keeps what all searches of one plan share. Ties go to the faster link, then to the lower ranks.
class TreeFinder {
public:
    explicit TreeFinder(const Overlay& overlay);

    // The links of the tree with the smallest sum of prices (each below 2^47).
    [[nodiscard]] std::vector<std::uint32_t> cheapest(std::span<const std::uint64_t> prices);

    // The links of the tree whose slowest link is fastest.
    [[nodiscard]] std::vector<std::uint32_t> widest();

    // The tree of shortest ways from a root, and each rank's distance from it. Lengths are at least 1.
    [[nodiscard]] Tree shortest(std::uint32_t root, std::span<const std::uint64_t> lengths,
                                std::vector<std::uint64_t>& distance);

    // A cheap tree below `root` in which no rank is farther than `most_ns` there and back; none where the overlay has
    // no such tree. A heuristic, for small overlays: it grows the tree link by link, always the cheapest that keeps
    // within the limit, and brings ranks that were left out by their shortest ways.
    [[nodiscard]] std::optional<BoundedTree> bounded(std::uint32_t root, std::span<const std::uint64_t> prices,
                                                     std::uint64_t most_ns);

private:
    struct ShortestWays {
        Tree tree;
        std::vector<std::uint64_t> distance;
        std::uint64_t radius = 0;
    };
    const ShortestWays& ways_from(std::uint32_t root);
    [[nodiscard]] std::vector<std::uint32_t> join_up(std::span<const std::uint32_t> links_in_order);

    const Overlay& overlay_;
    std::vector<std::uint64_t> rounds_;   // of each link
    std::vector<std::uint32_t> by_rate_;  // links, the fastest first
    std::vector<std::uint64_t> keys_;     // scratch
    std::vector<std::uint32_t> sorted_;   // scratch
    std::vector<std::uint32_t> group_;    // scratch: disjoint sets
    std::vector<std::optional<ShortestWays>> ways_;
};

}  // namespace chaos::plan
