#include "plan/sync_plan.h"

#include "base/assert.h"
#include "base/hash.h"
#include "plan/overlay.h"
#include "plan/packing.h"
#include "plan/ring.h"
#include "plan/say.h"
#include "plan/trees.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>

namespace chaos::plan {
namespace {

// Named by the hash, so that members with different planners refuse each other's messages.
constexpr std::uint64_t planner_version = 1;

// How hard to search, by the number of members: a small cluster can afford to come close to the best plan, a large one
// must not let its members wait for it.
struct Effort {
    std::uint32_t most_members;
    bool limits_fill;               // search again under ever smaller limits on the fill
    std::uint64_t limit_numerator;  // each at most numerator / 16 of the last
    std::uint64_t all_trees;        // look at every tree where there are at most so many
    std::uint32_t swaps;            // of links, to better a single tree
    std::uint32_t shallow_trees;    // to start with: trees of shortest ways
    std::uint32_t cheap_trees;      // to start with: spanning trees that avoid what the others use
    std::uint32_t generated_trees;  // by the linear program's prices
    std::uint32_t trial_trees;      // the same, for a first look at a limit
    std::uint32_t roots;            // to look below for each tree within a limit
    std::uint32_t ring_steps;       // of the search for a cycle, per member; 0: no ring
    std::uint64_t work;  // on mixtures: entries of the linear program, links looked at; each a nanosecond or two
};
constexpr std::array efforts{
    Effort{8, true, 14, 500, 400, 2, 6, 48, 8, 8, 40, 500'000},
    Effort{16, true, 12, 200, 60, 2, 12, 32, 2, 4, 20, 500'000},
    Effort{128, false, 0, 0, 0, 5, 4, 3, 0, 0, 8, 60'000},
    Effort{max_sync_members, false, 0, 0, 0, 2, 1, 0, 0, 0, 0, 100'000},
};

// With so many members all cycles are looked at, and the most promising of them closely.
constexpr std::uint32_t most_members_for_all_cycles = 7;
constexpr std::size_t promising_cycles = 60;

const Effort& effort_for(std::uint32_t members) {
    return *std::find_if(efforts.begin(), efforts.end(), [&](const Effort& e) { return members <= e.most_members; });
}

// Of the pool's trees so many, the latest, begin a mixture.
constexpr std::size_t most_trees_to_start = 24;

// Trees that share less than this part of all bytes are left out.
constexpr std::uint64_t smallest_share = 512;

constexpr std::size_t shapes = 6;

// How much of each link and member the trees noted so far use, for finding others that avoid it.
class Usage {
public:
    explicit Usage(const Overlay& overlay)
        : overlay_(overlay), links_(overlay.links.size()), members_(overlay.size()), degree_(overlay.size()) {
        for (const OverlayLink& link : overlay.links) fastest_ = std::max(fastest_, link.rate);
    }

    // As if the tree carried as much as it can.
    void note(const Tree& tree) {
        std::fill(degree_.begin(), degree_.end(), 0U);
        std::uint64_t carries = unlimited >> use_bits;
        for (std::uint32_t rank = 0; rank < degree_.size(); ++rank) {
            if (tree.link[rank] == nobody) continue;
            ++degree_[rank];
            ++degree_[tree.parent[rank]];
            carries = std::min(carries, overlay_.links[tree.link[rank]].rate);
        }
        if (overlay_.capped) {
            for (std::uint32_t rank = 0; rank < degree_.size(); ++rank) {
                carries = std::min(carries, overlay_.cap[rank] / degree_[rank]);
            }
        }
        for (std::uint32_t rank = 0; rank < degree_.size(); ++rank) {
            const std::uint32_t link = tree.link[rank];
            if (link != nobody) links_[link] += (carries << use_bits) / overlay_.links[link].rate;
            if (overlay_.cap[rank] != unlimited) {
                members_[rank] += mul_div(carries << use_bits, degree_[rank], overlay_.cap[rank]);
            }
        }
    }

    // 4 to the power of how often the link, or one of its ends, would be saturated (piecewise linear, in 2^-use_bits).
    [[nodiscard]] std::uint64_t pressure(std::uint32_t i) const {
        const OverlayLink& link = overlay_.links[i];
        const std::uint64_t used = 2 * std::max({links_[i], members_[link.low], members_[link.high]});
        const std::uint64_t whole = std::min<std::uint64_t>(used >> use_bits, 20);
        return ((std::uint64_t{1} << use_bits) + (used & ((1U << use_bits) - 1))) << whole;
    }

    // The same, and higher for slower links.
    [[nodiscard]] std::uint64_t price(std::uint32_t i) const {
        return pressure(i) * std::min<std::uint64_t>(fastest_ * 16 / overlay_.links[i].rate, 1U << 18);
    }

private:
    static constexpr int use_bits = 8;
    const Overlay& overlay_;
    std::vector<std::uint64_t> links_;  // in 2^-use_bits
    std::vector<std::uint64_t> members_;
    std::vector<std::uint32_t> degree_;
    std::uint64_t fastest_ = 0;
};

class Planner {
public:
    Planner(const SyncRequest& request, const Overlay& overlay)
        : request_(request), overlay_(overlay), effort_(effort_for(overlay.size())), finder_(overlay) {
        times_.fill(unlimited);
        for (const OverlayLink& link : overlay.links) {
            least_chunk_ns_ = std::min({least_chunk_ns_, link.chunk_to_high_ns, link.chunk_to_low_ns});
        }
    }

    SyncPlan plan();

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
    [[nodiscard]] std::vector<std::vector<std::uint32_t>> promising() const;
    void spread_trees();
    void spread_trees_within(std::uint64_t most_fill_ns);
    void try_mixtures();
    std::uint64_t try_mixture(std::uint64_t most_fill_ns, std::uint32_t generated_trees);
    std::optional<Tree> cheapest_within(std::span<const std::uint64_t> prices, std::uint64_t most_fill_ns);
    std::optional<std::pair<Tree, std::uint64_t>> cheapest_below(std::uint32_t root,
                                                                 std::span<const std::uint64_t> prices,
                                                                 std::uint64_t most_fill_ns);
    const Known& know(Tree tree);
    // A plan that fills slower than this cannot be better than the best so far.
    [[nodiscard]] std::uint64_t useful_fill() const { return ns_ - std::min(ns_, load_bound_ns_); }
    void spend(std::uint64_t work) { work_ -= std::min(work_, work); }

    void consider(SyncShape shape, std::span<const Tree* const> trees, std::span<const std::uint64_t> weights);
    [[nodiscard]] std::vector<Portion> portions_of(std::span<const Tree* const> trees,
                                                   std::span<const std::uint64_t> weights) const;
    [[nodiscard]] SyncPlan finish() const;
    [[nodiscard]] std::uint64_t hash_of(const SyncPlan& plan) const;
    void explain(SyncPlan& plan) const;

    const SyncRequest& request_;
    const Overlay& overlay_;
    const Effort& effort_;
    TreeFinder finder_;
    std::deque<Known> pool_;  // grows without moving its trees
    bool knows_all_ = false;  // the pool holds every tree
    std::uint64_t work_ = 0;  // left for mixtures

    std::uint64_t least_chunk_ns_ = unlimited;  // on the fastest hop
    std::uint32_t next_root_ = 0;               // to look below

    std::uint64_t load_bound_ns_ = 0;
    std::uint64_t fill_bound_ns_ = 0;

    // The best so far.
    SyncShape shape_ = SyncShape::tree;
    std::vector<Tree> trees_;
    std::vector<std::uint64_t> bytes_;
    std::uint64_t ns_ = unlimited;
    std::array<std::uint64_t, shapes> times_{};  // the best of each shape
};

// Bytes in proportion to weights, whole multiples of the alignment but for the last.
std::vector<Portion> Planner::portions_of(std::span<const Tree* const> trees,
                                          std::span<const std::uint64_t> weights) const {
    u128 all = 0;
    for (const std::uint64_t weight : weights) all += weight;
    const u128 least = all / smallest_share;
    if (all == 0) return {};
    u128 kept = 0;
    for (const std::uint64_t weight : weights) kept += weight > least ? weight : 0;
    std::vector<Portion> portions;
    u128 before = 0;
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < trees.size(); ++i) {
        if (weights[i] <= least) continue;
        before += weights[i];
        std::uint64_t end = request_.bytes;
        if (before != kept) {
            // Weights are at most 2^50, shares thereof at most 2^64: scaled down where the product would not fit.
            const int shift = kept >> 76 != 0 ? 14 : 0;
            end = static_cast<std::uint64_t>((before >> shift) * request_.bytes / (kept >> shift));
            end -= end % request_.align_bytes;
        }
        if (end > begin) portions.push_back({trees[i], end - begin});
        begin = end;
    }
    return portions;
}

void Planner::consider(SyncShape shape, std::span<const Tree* const> trees, std::span<const std::uint64_t> weights) {
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
    if (ns >= ns_) return;
    ns_ = ns;
    shape_ = shape;
    trees_.clear();
    bytes_.clear();
    for (const Portion& portion : portions) {
        trees_.push_back(*portion.tree);
        bytes_.push_back(portion.bytes);
    }
}

const Planner::Known& Planner::know(Tree tree) {
    const std::uint64_t fill = fill_ns(overlay_, tree, overlay_.chunk_bytes);
    return pool_.emplace_back(Known{std::move(tree), fill});
}

// Cuts around one member, and the one that separates all of them.
void Planner::bound_loads() {
    u128 all = 0;
    for (const OverlayLink& link : overlay_.links) all += link.rate;
    load_bound_ns_ = saturate(u128{request_.bytes} * (overlay_.size() - 1) * ns_per_s / all);
    u128 caps = 0;
    for (std::uint32_t rank = 0; rank < overlay_.size(); ++rank) {
        std::uint64_t rate = 0;
        for (const Neighbour& neighbour : overlay_.of(rank)) rate += overlay_.links[neighbour.link].rate;
        rate = std::min(rate, overlay_.cap[rank]);
        load_bound_ns_ = std::max(load_bound_ns_, mul_div(request_.bytes, ns_per_s, rate));
        caps += rate;
    }
    // Every tree touches its members 2 (n - 1) times in all.
    load_bound_ns_ =
        std::max(load_bound_ns_, saturate(u128{request_.bytes} * 2 * (overlay_.size() - 1) * ns_per_s / caps));
}

// Each member's news travel at least its fastest link both ways; where there is time, the delays of shortest ways.
void Planner::bound_fill() {
    for (std::uint32_t rank = 0; rank < overlay_.size(); ++rank) {
        std::uint64_t least = unlimited;
        for (const Neighbour& neighbour : overlay_.of(rank)) {
            least = std::min(least, overlay_.links[neighbour.link].delay_ns);
        }
        fill_bound_ns_ = std::max(fill_bound_ns_, 2 * least);
    }
    if (!effort_.limits_fill) return;
    std::vector<std::uint64_t> delays;
    for (const OverlayLink& link : overlay_.links) delays.push_back(link.delay_ns);
    std::uint64_t radius = unlimited;
    std::vector<std::uint64_t> distance;
    for (std::uint32_t root = 0; root < overlay_.size(); ++root) {
        (void)finder_.shortest(root, delays, distance);
        radius = std::min(radius, *std::max_element(distance.begin(), distance.end()));
    }
    fill_bound_ns_ = std::max(fill_bound_ns_, 2 * radius);
}

void Planner::try_tree(const Tree& tree) {
    static constexpr std::array<std::uint64_t, 1> whole{1};
    const std::array<const Tree*, 1> one{&tree};
    consider(SyncShape::tree, one, whole);
}

void Planner::try_all_trees() {
    const auto all = all_trees(overlay_, effort_.all_trees);
    if (!all) return;
    knows_all_ = true;
    for (const auto& links : *all) try_tree(know(root_tree(overlay_, links)).tree);
}

// What a single tree loads its busiest link or member with.
std::uint64_t Planner::tree_load_ns(std::span<const std::uint32_t> links) const {
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
void Planner::better_single_tree() {
    if (trees_.size() != 1) return;
    std::uint32_t left = effort_.swaps;
    for (bool better = true; better && left > 0;) {
        better = false;
        const Tree tree = trees_[0];
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
                if (saturating_add(tree_load_ns(links), fill_bound_ns_) >= ns_) continue;
                --left;
                const std::uint64_t before = ns_;
                try_tree(root_tree(overlay_, links));
                better = better || ns_ < before;
            }
        }
    }
    if (trees_.size() == 1) know(trees_[0]);
}

void Planner::try_single_trees() {
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

void Planner::try_direct_exchange() {
    const std::uint32_t n = overlay_.size();
    if (n < 3 || effort_.ring_steps == 0 || overlay_.links.size() != std::size_t{n} * (n - 1) / 2) return;
    std::vector<Tree> stars;
    std::vector<const Tree*> pointers;
    for (std::uint32_t root = 0; root < n; ++root) {
        stars.push_back(tree_of_parents(overlay_, std::vector<std::uint32_t>(n, root)));
    }
    for (const Tree& star : stars) pointers.push_back(&star);
    consider(SyncShape::direct, pointers, std::vector<std::uint64_t>(n, 1));
    if (effort_.limits_fill && !knows_all_) {
        for (Tree& star : stars) know(std::move(star));
    }
}

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

void Planner::try_ring() {
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
    if (load_bound_ns_ + least_delay > saturating_add(ns_, largest_delay)) return;
    if (n <= most_members_for_all_cycles) {
        for (const auto& cycle : promising()) try_cycle(cycle);
        return;
    }
    const auto cycle = effort_.limits_fill ? find_fast_cycle(overlay_, effort_.ring_steps * n)
                                           : find_cycle(overlay_, 0, effort_.ring_steps * n);
    if (cycle) try_cycle(*cycle);
}

std::vector<std::vector<std::uint32_t>> Planner::promising() const {
    std::vector<std::vector<std::uint32_t>> cycles = all_cycles(overlay_);
    std::vector<std::pair<std::uint64_t, std::size_t>> guesses;
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
    guesses.resize(std::min(guesses.size(), promising_cycles));
    std::vector<std::vector<std::uint32_t>> best;
    for (const auto& [guess, i] : guesses) best.push_back(std::move(cycles[i]));
    return best;
}

void Planner::try_cycle(const std::vector<std::uint32_t>& cycle) {
    std::vector<std::uint64_t> rates;
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
    if (load + delays - largest_delay >= ns_) return;
    const std::vector<Tree> paths = paths_of(overlay_, cycle);
    std::vector<const Tree*> pointers;
    for (const Tree& path : paths) pointers.push_back(&path);
    consider(SyncShape::ring, pointers, shares);
    consider(SyncShape::ring, pointers, std::vector<std::uint64_t>(cycle.size(), 1));
}

// Fills the pool with trees that avoid each other.
void Planner::spread_trees() {
    Usage usage(overlay_);
    for (const Known& known : pool_) usage.note(known.tree);
    std::vector<std::uint64_t> costs(overlay_.links.size());
    for (std::uint32_t made = 0; made < effort_.cheap_trees; ++made) {
        for (std::uint32_t i = 0; i < costs.size(); ++i) costs[i] = usage.price(i);
        usage.note(know(root_tree(overlay_, finder_.cheapest(costs))).tree);
    }
    std::vector<std::uint64_t> distance;
    const std::uint32_t root = pool_[1].tree.root;
    for (std::uint32_t made = 0; made < effort_.shallow_trees; ++made) {
        for (std::uint32_t i = 0; i < costs.size(); ++i) {
            costs[i] = saturate(u128{overlay_.links[i].round_ns} * usage.pressure(i));
        }
        usage.note(know(finder_.shortest(root, costs, distance)).tree);
    }
}

// The same within a limit on the fill: one below each root that reaches all in time.
void Planner::spread_trees_within(std::uint64_t most_fill_ns) {
    Usage usage(overlay_);
    std::vector<std::uint64_t> costs(overlay_.links.size());
    for (std::uint32_t root = 0; root < overlay_.size(); ++root) {
        for (std::uint32_t i = 0; i < costs.size(); ++i) costs[i] = usage.price(i);
        if (auto tree = cheapest_below(root, costs, most_fill_ns)) usage.note(know(std::move(tree->first)).tree);
    }
}

// The cheapest tree below a root that fills in time, and its price.
std::optional<std::pair<Tree, std::uint64_t>> Planner::cheapest_below(std::uint32_t root,
                                                                      std::span<const std::uint64_t> prices,
                                                                      std::uint64_t most_fill_ns) {
    spend(std::uint64_t{8} * overlay_.size() + 4 * overlay_.links.size());
    const auto found = finder_.bounded(root, prices, saturating_add(most_fill_ns, least_chunk_ns_));
    if (!found) return std::nullopt;
    Tree tree = hang_tree(overlay_, found->links, root);
    if (overlay_.capped && fill_ns(overlay_, tree, overlay_.chunk_bytes) > most_fill_ns) return std::nullopt;
    return std::pair(std::move(tree), found->price);
}

std::optional<Tree> Planner::cheapest_within(std::span<const std::uint64_t> prices, std::uint64_t most_fill_ns) {
    if (knows_all_) {
        const Known* best = nullptr;
        std::uint64_t least = unlimited;
        for (const Known& known : pool_) {
            if (known.fill_ns > most_fill_ns) continue;
            std::uint64_t cost = 0;
            for (const std::uint32_t link : known.tree.link) cost += link == nobody ? 0 : prices[link];
            if (cost >= least) continue;
            least = cost;
            best = &known;
        }
        return best != nullptr ? std::optional(best->tree) : std::nullopt;
    }
    if (most_fill_ns == unlimited) return root_tree(overlay_, finder_.cheapest(prices));
    std::optional<Tree> best;
    std::uint64_t least = unlimited;
    for (std::uint32_t tried = 0; tried < std::min(effort_.roots, overlay_.size()); ++tried) {
        next_root_ = (next_root_ + 1) % overlay_.size();
        auto found = cheapest_below(next_root_, prices, most_fill_ns);
        if (!found || found->second >= least) continue;
        least = found->second;
        best = std::move(found->first);
    }
    return best;
}

// The best mixture of trees that fill within a limit. Returns the largest fill among the trees it uses, 0 if there is
// no such tree.
std::uint64_t Planner::try_mixture(std::uint64_t most_fill_ns, std::uint32_t generated_trees) {
    Packing packing(overlay_);
    std::vector<const Known*> used;
    const auto add = [&](const Known& known) {
        packing.add(known.tree);
        used.push_back(&known);
    };
    std::deque<Known> again;  // copies of the pool's trees, where the pool holds all
    if (!knows_all_) {
        if (most_fill_ns != unlimited) spread_trees_within(most_fill_ns);
        for (std::size_t i = pool_.size(); i-- > 0 && used.size() < most_trees_to_start;) {
            if (pool_[i].fill_ns <= most_fill_ns) add(pool_[i]);
        }
    }
    const auto keep = [&](Tree tree) -> const Known& {
        if (!knows_all_) return know(std::move(tree));
        const std::uint64_t fill = fill_ns(overlay_, tree, overlay_.chunk_bytes);
        return again.emplace_back(Known{std::move(tree), fill});
    };
    if (used.empty()) {
        std::vector<std::uint64_t> slowness;
        for (const OverlayLink& link : overlay_.links) slowness.push_back(fastest_bytes_per_s / link.rate);
        auto tree = cheapest_within(slowness, most_fill_ns);
        if (!tree) return 0;
        add(keep(std::move(*tree)));
    }
    packing.solve(work_);
    for (std::uint32_t made = 0; made < generated_trees && work_ > 0; ++made) {
        const std::vector<std::uint64_t> prices = packing.prices();
        auto tree = cheapest_within(prices, most_fill_ns);
        if (!tree) break;
        std::uint64_t cost = 0;
        for (const std::uint32_t link : tree->link) cost += link == nobody ? 0 : prices[link];
        if (most_fill_ns == unlimited) load_bound_ns_ = std::max(load_bound_ns_, packing.bound_ns(cost));
        constexpr std::uint64_t enough = Packing::one - Packing::one / 256;
        if (cost >= enough) break;
        add(keep(std::move(*tree)));
        packing.solve(work_);
    }
    const std::vector<std::uint64_t> weights = packing.weights();
    std::vector<const Tree*> trees;
    std::uint64_t largest_fill = 0;
    for (std::size_t i = 0; i < used.size(); ++i) {
        trees.push_back(&used[i]->tree);
        if (weights[i] > 0) largest_fill = std::max(largest_fill, used[i]->fill_ns);
    }
    if (largest_fill == 0 && std::all_of(weights.begin(), weights.end(), [](auto w) { return w == 0; })) return 0;
    consider(SyncShape::mixture, trees, weights);
    return largest_fill;
}

void Planner::try_mixtures() {
    if (!knows_all_) spread_trees();
    work_ = effort_.work;
    // Where filling takes most of the time, trees that fill slowly are not worth looking at.
    std::uint64_t limit = effort_.limits_fill && useful_fill() < pool_[0].fill_ns ? useful_fill() : unlimited;
    std::uint64_t fill = try_mixture(limit, limit == unlimited ? effort_.generated_trees : effort_.trial_trees);
    if (!effort_.limits_fill) {
        // The shallow trees alone.
        std::vector<std::uint64_t> fills;
        for (const Known& known : pool_) fills.push_back(known.fill_ns);
        std::nth_element(fills.begin(), fills.begin() + static_cast<std::ptrdiff_t>(fills.size() / 2), fills.end());
        const std::uint64_t median = fills[fills.size() / 2];
        if (median < fill) {
            Packing packing(overlay_);
            std::vector<const Tree*> trees;
            for (const Known& known : pool_) {
                if (known.fill_ns > median) continue;
                packing.add(known.tree);
                trees.push_back(&known.tree);
            }
            packing.solve(work_);
            consider(SyncShape::mixture, trees, packing.weights());
        }
        return;
    }
    // Ever smaller limits, each with a few trees; what is left of the work goes to the most promising one.
    std::uint64_t best_limit = limit;
    const std::uint64_t reserve = knows_all_ ? 0 : work_ / 2;
    while (fill > 0 && work_ > reserve) {
        limit = std::min({fill - 1, limit / 16 * effort_.limit_numerator, useful_fill()});
        if (limit < fill_bound_ns_) break;
        const std::uint64_t before = ns_;
        fill = try_mixture(limit, knows_all_ ? effort_.generated_trees : effort_.trial_trees);
        if (ns_ < before) best_limit = limit;
    }
    if (!knows_all_ && best_limit != unlimited) try_mixture(best_limit, effort_.generated_trees);
}

SyncPlan Planner::plan() {
    bound_loads();
    bound_fill();
    try_single_trees();
    try_direct_exchange();
    try_mixtures();
    try_ring();
    return finish();
}

std::uint64_t Planner::hash_of(const SyncPlan& plan) const {
    std::vector<std::uint64_t> words{planner_version, overlay_.size(), request_.bytes, request_.chunk_bytes};
    for (const std::uint32_t member : overlay_.member_of) words.push_back(request_.members[member].id);
    for (std::size_t i = 0; i < trees_.size(); ++i) {
        words.push_back(plan.trees[i].first_byte);
        words.push_back(bytes_[i]);
        words.insert(words.end(), trees_[i].parent.begin(), trees_[i].parent.end());
    }
    // Little-endian on every machine.
    std::vector<std::byte> canonical;
    canonical.reserve(words.size() * 8);
    for (const std::uint64_t word : words) {
        for (int shift = 0; shift < 64; shift += 8) canonical.push_back(static_cast<std::byte>(word >> shift & 0xff));
    }
    return xxh3(canonical);
}

void Planner::explain(SyncPlan& plan) const {
    std::vector<Portion> portions;
    for (std::size_t i = 0; i < trees_.size(); ++i) portions.push_back({&trees_[i], bytes_[i]});
    const std::uint64_t load = load_ns(overlay_, portions);
    plan.reasons.push_back(std::string(name_of(shape_)) + " of " + say_count(trees_.size(), "tree") + ": " +
                           say_time(ns_) + " predicted, " + say_time(load) + " of it load and " +
                           say_time(ns_ - std::min(load, ns_)) + " filling the pipeline; no plan takes less than " +
                           say_time(plan.bound_ns));
    std::string others;
    for (std::size_t i = 0; i < shapes; ++i) {
        if (times_[i] == unlimited || i == static_cast<std::size_t>(shape_)) continue;
        others +=
            (others.empty() ? "" : ", ") + std::string(name_of(static_cast<SyncShape>(i))) + " " + say_time(times_[i]);
    }
    if (!others.empty()) plan.reasons.push_back("the best of other shapes: " + others);
    std::vector<std::uint64_t> loads(overlay_.links.size());
    for (const Portion& portion : portions) {
        for (const std::uint32_t link : portion.tree->link) {
            if (link != nobody) loads[link] += portion.bytes;
        }
    }
    for (std::size_t i = 0; i < loads.size(); ++i) {
        const OverlayLink& link = overlay_.links[i];
        if (loads[i] == 0 || transfer_ns(loads[i], link.rate) < load) continue;
        plan.reasons.push_back("the busiest link joins members " +
                               std::to_string(request_.members[overlay_.member_of[link.low]].id) + " and " +
                               std::to_string(request_.members[overlay_.member_of[link.high]].id) + " (" +
                               say_rate(link.rate) + ")");
        return;
    }
    plan.reasons.emplace_back("the busiest resource is a member's cap on ingress or egress");
}

SyncPlan Planner::finish() const {
    SyncPlan plan;
    plan.shape = shape_;
    plan.predicted_ns = ns_;
    plan.bound_ns = std::min(saturating_add(load_bound_ns_, fill_bound_ns_), ns_);
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < trees_.size(); ++i) {
        SyncTree& tree = plan.trees.emplace_back();
        tree.first_byte = begin;
        tree.bytes = bytes_[i];
        begin += bytes_[i];
        tree.parent.resize(overlay_.size());
        for (std::uint32_t rank = 0; rank < overlay_.size(); ++rank) {
            tree.parent[overlay_.member_of[rank]] = overlay_.member_of[trees_[i].parent[rank]];
        }
    }
    CHAOS_ASSERT(begin == request_.bytes);
    plan.hash = hash_of(plan);
    explain(plan);
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
    if (overlay.size() > 1 && request.bytes > 0) return Planner(request, overlay).plan();
    SyncPlan plan;
    if (request.bytes > 0) plan.trees.push_back({0, request.bytes, {0}});
    const std::array<std::uint64_t, 3> words{planner_version, request.members[overlay.member_of[0]].id, request.bytes};
    plan.hash = xxh3(std::as_bytes(std::span(words)));
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
