#include "plan/sync_search.h"

#include "base/assert.h"
#include "plan/ring.h"

#include <algorithm>

namespace chaos::plan {
namespace {

constexpr std::array efforts{
    SyncEffort{.most_members = 8,
               .limits_fill = true,
               .limit_numerator = 15,
               .all_trees = 500,
               .swaps = 400,
               .shallow_trees = 2,
               .cheap_trees = 6,
               .generated_trees = 48,
               .trial_trees = 8,
               .roots = 8,
               .ring_steps = 40,
               .work = 500'000},
    SyncEffort{.most_members = 16,
               .limits_fill = true,
               .limit_numerator = 12,
               .all_trees = 200,
               .swaps = 60,
               .shallow_trees = 2,
               .cheap_trees = 12,
               .generated_trees = 32,
               .trial_trees = 2,
               .roots = 4,
               .ring_steps = 20,
               .work = 500'000},
    SyncEffort{.most_members = 128,
               .shallow_trees = 5,
               .cheap_trees = 4,
               .generated_trees = 3,
               .ring_steps = 8,
               .work = 60'000},
    SyncEffort{.most_members = max_sync_members, .shallow_trees = 2, .cheap_trees = 1, .work = 100'000},
};

const SyncEffort& effort_for(std::uint32_t members) {
    return *std::find_if(efforts.begin(), efforts.end(),
                         [&](const SyncEffort& effort) { return members <= effort.most_members; });
}

// With so many members all cycles are looked at, and the most promising of them closely.
constexpr std::uint32_t most_members_for_all_cycles = 7;
constexpr std::size_t most_cycles_to_try = 60;

// Trees that share less than this part of all bytes are left out.
constexpr std::uint64_t smallest_share = 512;

// What the path without link k carries, so that the most loaded link of the ring is done as early as possible: link k
// carries everything but that.
std::vector<std::uint64_t> ring_shares(std::uint64_t bytes, const std::vector<std::uint64_t>& rates,
                                       std::uint64_t& ns) {
    const auto share = [&](std::uint64_t rate, std::uint64_t by) {
        return bytes - std::min(bytes, mul_div(by, rate, ns_per_s));
    };
    const auto fits = [&](std::uint64_t by) {
        u128 sum = 0;
        for (const std::uint64_t rate : rates) sum += share(rate, by);
        return sum <= bytes;
    };
    std::uint64_t low = 0;
    std::uint64_t high = transfer_ns(bytes, *std::min_element(rates.begin(), rates.end()));
    while (high - low > 1) {
        const std::uint64_t middle = low + (high - low) / 2;
        (fits(middle) ? high : low) = middle;
    }
    ns = high;
    std::vector<std::uint64_t> shares;
    std::uint64_t sum = 0;
    for (const std::uint64_t rate : rates) {
        shares.push_back(share(rate, high));
        sum += shares.back();
    }
    const std::uint64_t rest = sum < bytes ? (bytes - sum) / rates.size() : 0;
    for (std::uint64_t& part : shares) part += rest;
    return shares;
}

}  // namespace

SyncSearch::SyncSearch(const SyncRequest& request, const Overlay& overlay)
    : request_(request), overlay_(overlay), effort_(effort_for(overlay.size())), finder_(overlay) {
    times_.fill(unlimited);
    for (const OverlayLink& link : overlay.links) {
        least_chunk_ns_ = std::min({least_chunk_ns_, link.chunk_to_high_ns, link.chunk_to_low_ns});
    }
}

void SyncSearch::run() {
    bound_loads();
    bound_fill();
    try_single_trees();
    try_direct_exchange();
    try_mixtures();
    try_ring();  // last, since what was found may show that no ring can win
}

// Bytes in proportion to weights, whole multiples of the alignment but for the last.
std::vector<Portion> SyncSearch::portions_of(std::span<const Tree* const> trees,
                                             std::span<const std::uint64_t> weights) const {
    u128 all = 0;
    for (const std::uint64_t weight : weights) all += weight;
    if (all == 0) return {};
    const u128 least = all / smallest_share;
    u128 kept = 0;
    for (const std::uint64_t weight : weights) kept += weight > least ? weight : 0;
    CHAOS_ASSERT(kept > 0);
    std::vector<Portion> portions;
    u128 before = 0;
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < trees.size(); ++i) {
        if (weights[i] <= least) continue;
        before += weights[i];
        std::uint64_t end = request_.bytes;
        if (before != kept) {
            end = static_cast<std::uint64_t>(before * request_.bytes / kept);  // below 2^65 * 2^50
            end -= end % request_.align_bytes;
        }
        if (end > begin) portions.push_back({trees[i], end - begin});
        begin = end;
    }
    return portions;
}

void SyncSearch::consider(SyncShape shape, std::span<const Tree* const> trees, std::span<const std::uint64_t> weights) {
    const std::vector<Portion> portions = portions_of(trees, weights);
    if (portions.empty()) return;
    if (portions.size() == 1) {
        const auto& parent = portions[0].tree->parent;
        const bool star =
            std::all_of(parent.begin(), parent.end(), [&](auto p) { return p == portions[0].tree->root; });
        shape = star ? SyncShape::star : SyncShape::tree;
    }
    const std::uint64_t ns = predict_ns(overlay_, portions);
    std::uint64_t& best_of_shape = times_[static_cast<std::size_t>(shape)];
    best_of_shape = std::min(best_of_shape, ns);
    if (ns >= best_.ns) return;
    best_.ns = ns;
    best_.shape = shape;
    best_.trees.clear();
    best_.bytes.clear();
    for (const Portion& portion : portions) {
        best_.trees.push_back(*portion.tree);
        best_.bytes.push_back(portion.bytes);
    }
}

const SyncSearch::Known& SyncSearch::know(Tree tree) {
    const std::uint64_t fill = fill_ns(overlay_, tree, overlay_.chunk_bytes);
    return pool_.emplace_back(Known{std::move(tree), fill});
}

// Cuts around one member, and the one that separates all of them.
void SyncSearch::bound_loads() {
    u128 all = 0;
    for (const OverlayLink& link : overlay_.links) all += link.rate;
    CHAOS_ASSERT(all > 0);
    load_bound_ns_ = saturate(u128{request_.bytes} * (overlay_.size() - 1) * ns_per_s / all);
    u128 caps = 0;
    for (std::uint32_t rank = 0; rank < overlay_.size(); ++rank) {
        std::uint64_t rate = 0;
        for (const Neighbour& neighbour : overlay_.of(rank)) rate += overlay_.links[neighbour.link].rate;
        rate = std::min(rate, overlay_.cap[rank]);
        load_bound_ns_ = std::max(load_bound_ns_, mul_div(request_.bytes, ns_per_s, rate));
        caps += rate;
    }
    CHAOS_ASSERT(caps > 0);
    // Every tree touches its members 2 (n - 1) times in all.
    load_bound_ns_ =
        std::max(load_bound_ns_, saturate(u128{request_.bytes} * 2 * (overlay_.size() - 1) * ns_per_s / caps));
}

// Each member's news travel at least its fastest link both ways; where there is time, the delays of shortest ways.
void SyncSearch::bound_fill() {
    for (std::uint32_t rank = 0; rank < overlay_.size(); ++rank) {
        std::uint64_t least = unlimited;
        for (const Neighbour& neighbour : overlay_.of(rank)) {
            least = std::min(least, overlay_.links[neighbour.link].delay_ns);
        }
        fill_bound_ns_ = std::max(fill_bound_ns_, 2 * least);
    }
    if (!effort_.limits_fill) return;
    std::vector<std::uint64_t> delays;
    delays.reserve(overlay_.links.size());
    for (const OverlayLink& link : overlay_.links) delays.push_back(link.delay_ns);
    std::uint64_t radius = unlimited;
    std::vector<std::uint64_t> distance;
    for (std::uint32_t root = 0; root < overlay_.size(); ++root) {
        (void)finder_.shortest(root, delays, distance);
        radius = std::min(radius, *std::max_element(distance.begin(), distance.end()));
    }
    fill_bound_ns_ = std::max(fill_bound_ns_, 2 * radius);
}

void SyncSearch::try_tree(const Tree& tree) {
    static constexpr std::array<std::uint64_t, 1> whole{1};
    const std::array<const Tree*, 1> one{&tree};
    consider(SyncShape::tree, one, whole);
}

void SyncSearch::try_all_trees() {
    const auto all = all_trees(overlay_, effort_.all_trees);
    if (!all) return;
    knows_all_ = true;
    for (const auto& links : *all) try_tree(know(root_tree(overlay_, links)).tree);
}

// What a single tree loads its busiest link or member with.
std::uint64_t SyncSearch::tree_load_ns(std::span<const std::uint32_t> links) const {
    std::uint64_t slowest = unlimited;
    for (const std::uint32_t i : links) slowest = std::min(slowest, overlay_.links[i].rate);
    if (overlay_.capped) {
        std::vector<std::uint32_t> degree(overlay_.size());
        for (const std::uint32_t i : links) {
            ++degree[overlay_.links[i].low];
            ++degree[overlay_.links[i].high];
        }
        for (std::uint32_t rank = 0; rank < overlay_.size(); ++rank) {
            slowest = std::min(slowest, saturating_add(overlay_.cap[rank] / degree[rank], 1));
        }
    }
    return mul_div(request_.bytes, ns_per_s, slowest);
}

// Exchanges one link of the best tree for another as long as that helps.
void SyncSearch::better_single_tree() {
    if (best_.trees.size() != 1) return;
    std::uint32_t left = effort_.swaps;
    for (bool better = true; better && left > 0;) {
        better = false;
        const Tree tree = best_.trees[0];
        for (std::uint32_t added = 0; added < overlay_.links.size() && left > 0; ++added) {
            if (std::find(tree.link.begin(), tree.link.end(), added) != tree.link.end()) continue;
            // The ranks whose links to their parents lie on the circle that the added link closes.
            std::vector<std::uint32_t> circle;
            for (const std::uint32_t end : {overlay_.links[added].low, overlay_.links[added].high}) {
                for (std::uint32_t rank = end; rank != tree.root; rank = tree.parent[rank]) {
                    const auto twice = std::find(circle.begin(), circle.end(), rank);
                    twice == circle.end() ? circle.push_back(rank) : static_cast<void>(circle.erase(twice));
                }
            }
            for (const std::uint32_t removed : circle) {
                if (left == 0) break;
                std::vector<std::uint32_t> links{added};
                for (std::uint32_t rank = 0; rank < overlay_.size(); ++rank) {
                    if (rank != removed && rank != tree.root) links.push_back(tree.link[rank]);
                }
                if (saturating_add(tree_load_ns(links), fill_bound_ns_) >= best_.ns) continue;
                --left;
                const std::uint64_t before = best_.ns;
                try_tree(root_tree(overlay_, links));
                better = better || best_.ns < before;
            }
        }
    }
    if (best_.trees.size() == 1) know(best_.trees[0]);
}

void SyncSearch::try_single_trees() {
    if (effort_.all_trees > 0) try_all_trees();
    if (knows_all_) return;
    const std::vector<std::uint32_t> widest = finder_.widest();
    std::uint64_t slowest = unlimited;
    for (const std::uint32_t i : widest) slowest = std::min(slowest, overlay_.links[i].rate);
    try_tree(know(root_tree(overlay_, widest)).tree);

    // As wide, but by shortest ways from the middle of the overlay.
    std::vector<std::uint64_t> lengths;
    for (const OverlayLink& link : overlay_.links) {
        const std::uint64_t narrower = link.rate >= slowest ? 1 : 4 * (slowest / link.rate);
        lengths.push_back(saturate(u128{link.round_ns} * narrower * narrower));
    }
    std::vector<std::uint64_t> distance;
    const auto farthest = [&] {
        return static_cast<std::uint32_t>(std::max_element(distance.begin(), distance.end()) - distance.begin());
    };
    const Tree across = finder_.shortest(pool_[0].tree.order.back(), lengths, distance);
    std::uint32_t middle = farthest();
    const std::uint64_t half = distance[middle] / 2;
    while (middle != across.root && distance[across.parent[middle]] >= half) middle = across.parent[middle];
    try_tree(know(finder_.shortest(middle, lengths, distance)).tree);

    if (!effort_.limits_fill) return;
    for (std::uint32_t root = 0; root < overlay_.size(); ++root) {
        try_tree(finder_.shortest(root, lengths, distance));
        for (OverlayLink const& link : overlay_.links) lengths.push_back(link.round_ns);
        const std::span<const std::uint64_t> rounds(lengths.data() + overlay_.links.size(), overlay_.links.size());
        try_tree(finder_.shortest(root, rounds, distance));
        lengths.resize(overlay_.links.size());
    }
    better_single_tree();
}

void SyncSearch::try_direct_exchange() {
    const std::uint32_t n = overlay_.size();
    if (n < 3 || effort_.ring_steps == 0 || overlay_.links.size() != std::size_t{n} * (n - 1) / 2) return;
    std::vector<Tree> stars;
    stars.reserve(n);
    std::vector<const Tree*> pointers;
    pointers.reserve(overlay_.size());
    for (std::uint32_t root = 0; root < n; ++root) {
        stars.push_back(tree_of_parents(overlay_, std::vector<std::uint32_t>(n, root)));
    }
    for (const Tree& star : stars) pointers.push_back(&star);
    consider(SyncShape::direct, pointers, std::vector<std::uint64_t>(n, 1));
    if (effort_.limits_fill && !knows_all_) {
        for (Tree& star : stars) know(std::move(star));
    }
}

void SyncSearch::try_ring() {
    const std::uint32_t n = overlay_.size();
    if (n < 3 || effort_.ring_steps == 0) return;
    std::uint64_t least_delay = 0;  // of any cycle
    std::uint64_t largest_delay = 0;
    for (std::uint32_t rank = 0; rank < n; ++rank) {
        std::uint64_t least = unlimited;
        for (const Neighbour& neighbour : overlay_.of(rank)) {
            const std::uint64_t delay = overlay_.links[neighbour.link].delay_ns;
            least = std::min(least, delay);
            largest_delay = std::max(largest_delay, delay);
        }
        least_delay += least;
    }
    if (saturating_add(load_bound_ns_, least_delay) > saturating_add(best_.ns, largest_delay)) return;
    if (n <= most_members_for_all_cycles) {
        for (const auto& cycle : promising_cycles()) try_cycle(cycle);
        return;
    }
    const auto cycle = effort_.limits_fill ? find_fast_cycle(overlay_, effort_.ring_steps * n)
                                           : find_cycle(overlay_, 0, effort_.ring_steps * n);
    if (cycle) try_cycle(*cycle);
}

std::vector<std::vector<std::uint32_t>> SyncSearch::promising_cycles() const {
    std::vector<std::vector<std::uint32_t>> cycles = all_cycles(overlay_);
    std::vector<std::pair<std::uint64_t, std::size_t>> guesses;
    guesses.reserve(cycles.size());
    for (std::size_t i = 0; i < cycles.size(); ++i) {
        std::uint64_t slowest = unlimited;
        std::uint64_t round = 0;
        for (const std::uint32_t link : links_of(overlay_, cycles[i])) {
            slowest = std::min(slowest, overlay_.links[link].rate);
            round += overlay_.links[link].round_ns;
        }
        guesses.emplace_back(saturating_add(transfer_ns(request_.bytes, slowest), round / 2), i);
    }
    std::sort(guesses.begin(), guesses.end());
    guesses.resize(std::min(guesses.size(), most_cycles_to_try));
    std::vector<std::vector<std::uint32_t>> best;
    best.reserve(guesses.size());
    for (const auto& [guess, i] : guesses) best.push_back(std::move(cycles[i]));
    return best;
}

void SyncSearch::try_cycle(const std::vector<std::uint32_t>& cycle) {
    std::vector<std::uint64_t> rates;
    rates.reserve(cycle.size());
    std::uint64_t delays = 0;
    std::uint64_t largest_delay = 0;
    for (const std::uint32_t link : links_of(overlay_, cycle)) {
        rates.push_back(overlay_.links[link].rate);
        delays += overlay_.links[link].delay_ns;
        largest_delay = std::max(largest_delay, overlay_.links[link].delay_ns);
    }
    std::uint64_t load = 0;
    const std::vector<std::uint64_t> shares = ring_shares(request_.bytes, rates, load);
    // A path's ways up and down pass each of its links at least once.
    if (load + delays - largest_delay >= best_.ns) return;
    // A path that carries less than a chunk is rooted for what it carries, if all carry the same.
    const std::uint64_t part = ceil_div(request_.bytes, cycle.size());
    const std::vector<Tree> paths = paths_of(overlay_, cycle, std::min(part, overlay_.chunk_bytes));
    std::vector<const Tree*> pointers;
    pointers.reserve(overlay_.size());
    for (const Tree& path : paths) pointers.push_back(&path);
    consider(SyncShape::ring, pointers, shares);
    consider(SyncShape::ring, pointers, std::vector<std::uint64_t>(cycle.size(), 1));
}

}  // namespace chaos::plan
