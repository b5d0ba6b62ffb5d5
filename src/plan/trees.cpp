#include "plan/trees.h"

#include "base/assert.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace chaos::plan {
namespace {

constexpr int link_bits = 16;
static_assert(max_sync_links <= 1U << link_bits && fastest_bytes_per_s <= std::uint64_t{1} << (64 - link_bits));
constexpr int rank_bits = 14;
static_assert(max_sync_members <= 1U << rank_bits);
constexpr std::uint64_t farthest = (std::uint64_t{1} << (64 - rank_bits)) - 1;  // 13 days; beyond, all is equally far
constexpr std::uint64_t largest_price = (std::uint64_t{1} << 47) - 1;

std::uint32_t group_of(std::vector<std::uint32_t>& group, std::uint32_t rank) {
    while (group[rank] != rank) {
        group[rank] = group[group[rank]];
        rank = group[rank];
    }
    return rank;
}

__extension__ using i128 = __int128;

// Beyond, the count might leave 128 bits on its way.
constexpr std::uint32_t most_members_to_count = 12;

// Kirchhoff: any cofactor of the Laplacian, by Bareiss' elimination, which stays in whole numbers.
i128 count_trees(const Overlay& overlay) {
    const std::size_t n = overlay.size() - 1;
    std::vector<i128> a(n * n);
    for (const OverlayLink& link : overlay.links) {
        for (const std::uint32_t end : {link.low, link.high}) {
            if (end < n) a[end * n + end] += 1;
        }
        if (link.high >= n) continue;
        a[link.low * n + link.high] -= 1;
        a[link.high * n + link.low] -= 1;
    }
    i128 previous = 1;
    for (std::size_t k = 0; k + 1 < n; ++k) {
        // Principal minors of a connected overlay's Laplacian are positive: no pivot is ever 0.
        for (std::size_t i = k + 1; i < n; ++i) {
            for (std::size_t j = k + 1; j < n; ++j) {
                a[i * n + j] = (a[i * n + j] * a[k * n + k] - a[i * n + k] * a[k * n + j]) / previous;
            }
        }
        previous = a[k * n + k];
    }
    return a[n * n - 1];
}

struct Enumeration {
    const Overlay& overlay;
    std::vector<std::uint32_t> chosen;
    std::vector<std::vector<std::uint32_t>> trees;

    // Whether the links from `next` on can still join all groups.
    [[nodiscard]] bool can_span(std::uint32_t next, std::vector<std::uint32_t> group) const {
        std::size_t joined = chosen.size();
        for (std::uint32_t i = next; i < overlay.links.size() && joined + 1 < overlay.size(); ++i) {
            const std::uint32_t a = group_of(group, overlay.links[i].low);
            const std::uint32_t b = group_of(group, overlay.links[i].high);
            if (a == b) continue;
            group[a] = b;
            ++joined;
        }
        return joined + 1 == overlay.size();
    }

    // As deep as there are links.
    // NOLINTNEXTLINE(misc-no-recursion)
    void extend(std::uint32_t next, std::vector<std::uint32_t>& group) {
        if (chosen.size() + 1 == overlay.size()) {
            trees.push_back(chosen);
            return;
        }
        if (!can_span(next, group)) return;
        const std::uint32_t a = group_of(group, overlay.links[next].low);
        const std::uint32_t b = group_of(group, overlay.links[next].high);
        if (a != b) {
            std::vector<std::uint32_t> joined = group;
            joined[a] = b;
            chosen.push_back(next);
            extend(next + 1, joined);
            chosen.pop_back();
        }
        extend(next + 1, group);
    }
};

}  // namespace

std::optional<std::vector<std::vector<std::uint32_t>>> all_trees(const Overlay& overlay, std::uint64_t most) {
    if (overlay.size() < 2 || overlay.size() > most_members_to_count) return std::nullopt;
    if (count_trees(overlay) > static_cast<i128>(most)) return std::nullopt;
    Enumeration enumeration{overlay, {}, {}};
    std::vector<std::uint32_t> group(overlay.size());
    std::iota(group.begin(), group.end(), 0U);
    enumeration.extend(0, group);
    return std::move(enumeration.trees);
}

TreeFinder::TreeFinder(const Overlay& overlay) : overlay_(overlay), by_rate_(overlay.links.size()) {
    rounds_.reserve(overlay.links.size());
    for (const OverlayLink& link : overlay.links) rounds_.push_back(link.round_ns);
    keys_.resize(overlay.links.size());
    for (std::uint32_t i = 0; i < keys_.size(); ++i) {
        keys_[i] = (fastest_bytes_per_s - overlay.links[i].rate) << link_bits | i;
    }
    std::sort(keys_.begin(), keys_.end());
    for (std::size_t i = 0; i < keys_.size(); ++i) by_rate_[i] = keys_[i] & (max_sync_links - 1);
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
    // (distance, rank) in one word: distances keep the bits that the rank leaves.
    std::vector<std::uint64_t> heap{root};
    heap.reserve(std::size_t{2} * n);
    while (!heap.empty()) {
        std::pop_heap(heap.begin(), heap.end(), std::greater<>());
        const std::uint64_t far = heap.back() >> rank_bits;
        const auto rank = static_cast<std::uint32_t>(heap.back() & (max_sync_members - 1));
        heap.pop_back();
        if (far != distance[rank]) continue;
        tree.order.push_back(rank);
        for (const Neighbour& neighbour : overlay_.of(rank)) {
            const std::uint64_t there = std::min(far + std::min(lengths[neighbour.link], farthest), farthest);
            if (there >= distance[neighbour.rank]) continue;
            distance[neighbour.rank] = there;
            tree.parent[neighbour.rank] = rank;
            tree.link[neighbour.rank] = neighbour.link;
            heap.push_back(there << rank_bits | neighbour.rank);
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

std::optional<BoundedTree> TreeFinder::bounded(std::uint32_t root, std::span<const std::uint64_t> prices,
                                               std::uint64_t most_ns) {
    const ShortestWays& ways = ways_from(root);
    if (ways.radius > most_ns || ways.radius >= farthest) return std::nullopt;
    const std::uint32_t n = overlay_.size();
    struct Place {
        std::uint64_t price = unlimited;  // of the best way to join the tree
        std::uint64_t distance = unlimited;
        std::uint32_t parent = nobody;
        std::uint32_t link = nobody;
        bool taken = false;
    };
    std::vector<Place> places(n);
    const auto look_around = [&](std::uint32_t rank) {
        for (const Neighbour& neighbour : overlay_.of(rank)) {
            Place& place = places[neighbour.rank];
            const std::uint64_t there = places[rank].distance + rounds_[neighbour.link];
            if (place.taken || there > most_ns) continue;
            const std::uint64_t price = prices[neighbour.link];
            if (price > place.price || (price == place.price && there >= place.distance)) continue;
            place = {price, there, rank, neighbour.link, false};
        }
    };
    places[root] = {0, 0, root, nobody, true};
    look_around(root);
    for (std::uint32_t taken = 1; taken < n;) {
        std::uint32_t next = nobody;
        for (std::uint32_t rank = 0; rank < n; ++rank) {
            if (places[rank].taken || places[rank].parent == nobody) continue;
            if (next == nobody || places[rank].price < places[next].price) next = rank;
        }
        if (next != nobody) {
            places[next].taken = true;
            ++taken;
            look_around(next);
            continue;
        }
        // Nobody left is within the limit: bring the first of them by its shortest way. Ranks on it that are in the
        // tree already come nearer to the root, so that no limit breaks and no circle closes.
        std::uint32_t left_out = 0;
        while (places[left_out].taken) ++left_out;
        std::vector<std::uint32_t> way{left_out};
        while (way.back() != root) way.push_back(ways.tree.parent[way.back()]);
        for (std::size_t i = way.size() - 1; i-- > 0;) {
            const std::uint32_t rank = way[i];
            if (places[rank].taken && places[rank].distance == ways.distance[rank]) continue;
            if (!places[rank].taken) ++taken;
            places[rank] = {0, ways.distance[rank], way[i + 1], ways.tree.link[rank], true};
            look_around(rank);
        }
    }
    BoundedTree tree;
    tree.root = root;
    for (std::uint32_t rank = 0; rank < n; ++rank) {
        if (rank == root) continue;
        tree.links.push_back(places[rank].link);
        tree.price += prices[places[rank].link];
    }
    return tree;
}

}  // namespace chaos::plan
