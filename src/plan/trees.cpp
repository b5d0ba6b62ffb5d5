#include "plan/trees.h"

#include "base/assert.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace chaos::plan {
namespace {

constexpr int link_bits = 16;
static_assert(max_sync_links <= 1U << link_bits);
constexpr std::uint64_t longest_length = unlimited / max_sync_members / 2;  // a way through all members fits 64 bits
constexpr std::uint64_t largest_price = (std::uint64_t{1} << 47) - 1;

std::uint32_t group_of(std::vector<std::uint32_t>& group, std::uint32_t rank) {
    while (group[rank] != rank) {
        group[rank] = group[group[rank]];
        rank = group[rank];
    }
    return rank;
}

}  // namespace

TreeFinder::TreeFinder(const Overlay& overlay) : overlay_(overlay), by_rate_(overlay.links.size()) {
    rounds_.reserve(overlay.links.size());
    for (const OverlayLink& link : overlay.links) rounds_.push_back(link.round_ns);
    std::iota(by_rate_.begin(), by_rate_.end(), 0U);
    std::stable_sort(by_rate_.begin(), by_rate_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return overlay.links[a].rate > overlay.links[b].rate; });
}

std::vector<std::uint32_t> TreeFinder::join_up(std::span<const std::uint32_t> links_in_order) {
    group_.resize(overlay_.size());
    std::iota(group_.begin(), group_.end(), 0U);
    std::vector<std::uint32_t> taken;
    taken.reserve(overlay_.size() - 1);
    for (const std::uint32_t i : links_in_order) {
        const std::uint32_t a = group_of(group_, overlay_.links[i].low);
        const std::uint32_t b = group_of(group_, overlay_.links[i].high);
        if (a == b) continue;
        group_[std::max(a, b)] = std::min(a, b);
        taken.push_back(i);
        if (taken.size() + 1 == overlay_.size()) break;
    }
    CHAOS_ASSERT(taken.size() + 1 == overlay_.size());
    return taken;
}

std::vector<std::uint32_t> TreeFinder::widest() {
    return join_up(by_rate_);
}

std::vector<std::uint32_t> TreeFinder::cheapest(std::span<const std::uint64_t> prices) {
    keys_.resize(by_rate_.size());
    for (std::uint32_t place = 0; place < by_rate_.size(); ++place) {
        keys_[place] = std::min(prices[by_rate_[place]], largest_price) << link_bits | place;
    }
    std::sort(keys_.begin(), keys_.end());
    sorted_.resize(keys_.size());
    for (std::size_t i = 0; i < keys_.size(); ++i) sorted_[i] = by_rate_[keys_[i] & (max_sync_links - 1)];
    return join_up(sorted_);
}

Tree TreeFinder::shortest(std::uint32_t root, std::span<const std::uint64_t> lengths,
                          std::vector<std::uint64_t>& distance) {
    const std::uint32_t n = overlay_.size();
    Tree tree;
    tree.root = root;
    tree.parent.assign(n, nobody);
    tree.link.assign(n, nobody);
    tree.order.reserve(n);
    distance.assign(n, unlimited);
    distance[root] = 0;
    tree.parent[root] = root;
    using Entry = std::pair<std::uint64_t, std::uint32_t>;
    std::vector<Entry> heap{{0, root}};
    heap.reserve(2 * n);
    while (!heap.empty()) {
        std::pop_heap(heap.begin(), heap.end(), std::greater<>());
        const auto [far, rank] = heap.back();
        heap.pop_back();
        if (far != distance[rank]) continue;
        tree.order.push_back(rank);
        for (const Neighbour& neighbour : overlay_.of(rank)) {
            const std::uint64_t there = far + std::min(lengths[neighbour.link], longest_length);
            if (there >= distance[neighbour.rank]) continue;
            distance[neighbour.rank] = there;
            tree.parent[neighbour.rank] = rank;
            tree.link[neighbour.rank] = neighbour.link;
            heap.emplace_back(there, neighbour.rank);
            std::push_heap(heap.begin(), heap.end(), std::greater<>());
        }
    }
    CHAOS_ASSERT(tree.order.size() == n);
    return tree;
}

const TreeFinder::ShortestWays& TreeFinder::ways_from(std::uint32_t root) {
    ways_.resize(overlay_.size());
    if (!ways_[root]) {
        ShortestWays ways;
        ways.tree = shortest(root, rounds_, ways.distance);
        ways.radius = *std::max_element(ways.distance.begin(), ways.distance.end());
        ways_[root] = std::move(ways);
    }
    return *ways_[root];
}

std::uint64_t TreeFinder::radius_ns(std::uint32_t root) {
    return ways_from(root).radius;
}

std::uint64_t TreeFinder::radius_ns() {
    std::uint64_t least = unlimited;
    for (std::uint32_t root = 0; root < overlay_.size(); ++root) least = std::min(least, radius_ns(root));
    return least;
}

std::optional<Tree> TreeFinder::bounded(std::uint32_t root, std::span<const std::uint64_t> prices,
                                        std::uint64_t most_ns) {
    const ShortestWays& ways = ways_from(root);
    if (ways.radius > most_ns) return std::nullopt;
    const std::uint32_t n = overlay_.size();
    struct Best {
        std::uint64_t price = unlimited;
        std::uint64_t distance = unlimited;
        std::uint32_t parent = nobody;
    };
    std::vector<Best> best(n);
    std::vector<std::uint64_t> distance(n, unlimited);
    std::vector<std::uint32_t> parent(n, nobody);
    const auto take = [&](std::uint32_t rank, std::uint32_t above, std::uint64_t far) {
        parent[rank] = above;
        distance[rank] = far;
        for (const Neighbour& neighbour : overlay_.of(rank)) {
            const std::uint64_t there = far + rounds_[neighbour.link];
            if (parent[neighbour.rank] != nobody || there > most_ns) continue;
            const std::uint64_t price = prices[neighbour.link];
            Best& known = best[neighbour.rank];
            if (price > known.price || (price == known.price && there >= known.distance)) continue;
            known = {price, there, rank};
        }
    };
    take(root, root, 0);
    for (std::uint32_t taken = 1; taken < n;) {
        std::uint32_t next = nobody;
        for (std::uint32_t rank = 0; rank < n; ++rank) {
            if (parent[rank] != nobody || best[rank].parent == nobody) continue;
            if (next == nobody || best[rank].price < best[next].price) next = rank;
        }
        if (next != nobody) {
            take(next, best[next].parent, best[next].distance);
            ++taken;
            continue;
        }
        // Nobody left is within the limit: bring the first of them by its shortest way. Ranks on it that are in the
        // tree already come nearer to the root, so that no limit breaks and no circle closes.
        std::uint32_t left_out = 0;
        while (parent[left_out] != nobody) ++left_out;
        std::vector<std::uint32_t> way{left_out};
        while (way.back() != root) way.push_back(ways.tree.parent[way.back()]);
        for (std::size_t i = way.size() - 1; i-- > 0;) {
            const std::uint32_t rank = way[i];
            if (distance[rank] == ways.distance[rank]) continue;
            if (parent[rank] == nobody) ++taken;
            take(rank, way[i + 1], ways.distance[rank]);
        }
    }
    return tree_of_parents(overlay_, std::move(parent));
}

}  // namespace chaos::plan
