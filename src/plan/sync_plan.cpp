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
    std::uint32_t limits;           // at most so many
    std::uint64_t limit_numerator;  // each at most numerator / 16 of the last
    std::uint32_t shallow_trees;    // to start with: trees of shortest ways
    std::uint32_t cheap_trees;      // to start with: spanning trees that avoid what the others use
    std::uint32_t generated_trees;  // by the linear program's prices, per limit
    std::uint32_t pivots;           // per tree
    std::uint32_t ring_steps;       // of the search for a cycle, per member; 0: no ring
};
constexpr std::array efforts{
    Effort{8, true, 24, 15, 2, 6, 48, 32, 40},
    Effort{16, true, 5, 11, 2, 12, 24, 32, 20},
    Effort{128, false, 0, 0, 6, 4, 4, 8, 8},
    Effort{max_sync_members, false, 0, 0, 3, 1, 0, 4, 0},
};

const Effort& effort_for(std::uint32_t members) {
    return *std::find_if(efforts.begin(), efforts.end(), [&](const Effort& e) { return members <= e.most_members; });
}

// Trees that share less than this part of all bytes are left out.
constexpr std::uint64_t smallest_share = 512;

constexpr std::size_t shapes = 6;

class Planner {
public:
    Planner(const SyncRequest& request, const Overlay& overlay)
        : request_(request), overlay_(overlay), effort_(effort_for(overlay.size())), finder_(overlay) {
        times_.fill(unlimited);
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
    void try_single_trees();
    void try_direct_exchange();
    void try_ring();
    void spread_trees();
    void try_mixtures();
    std::uint64_t try_mixture(std::uint64_t most_fill_ns);
    std::optional<Tree> cheapest_within(std::span<const std::uint64_t> prices, std::uint64_t most_fill_ns);
    const Known& know(Tree tree);

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

void Planner::try_single_trees() {
    static constexpr std::array<std::uint64_t, 1> whole{1};
    const auto try_tree = [&](const Tree& tree) {
        const std::array<const Tree*, 1> one{&tree};
        consider(SyncShape::tree, one, whole);
    };
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
    (void)finder_.shortest(0, lengths, distance);
    const Tree across = finder_.shortest(farthest(), lengths, distance);
    std::uint32_t middle = farthest();
    const std::uint64_t half = distance[middle] / 2;
    while (middle != across.root && distance[across.parent[middle]] >= half) middle = across.parent[middle];
    try_tree(know(finder_.shortest(middle, lengths, distance)).tree);

    if (!effort_.limits_fill) return;
    for (std::uint32_t root = 0; root < overlay_.size(); ++root) {
        try_tree(know(finder_.shortest(root, lengths, distance)).tree);
        for (OverlayLink const& link : overlay_.links) lengths.push_back(link.round_ns);
        const std::span<const std::uint64_t> rounds(lengths.data() + overlay_.links.size(), overlay_.links.size());
        try_tree(know(finder_.shortest(root, rounds, distance)).tree);
        lengths.resize(overlay_.links.size());
    }
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
    if (effort_.limits_fill) {
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
    const auto cycle = effort_.limits_fill ? find_fast_cycle(overlay_, effort_.ring_steps * n)
                                           : find_cycle(overlay_, 0, effort_.ring_steps * n);
    if (!cycle) return;
    const std::vector<Tree> paths = paths_of(overlay_, *cycle);
    std::vector<const Tree*> pointers;
    std::vector<std::uint64_t> rates;
    for (std::size_t i = 0; i < n; ++i) {
        pointers.push_back(&paths[i]);
        const std::uint32_t end = (*cycle)[(i + 1) % n];
        const Tree& with = paths[(i + 1) % n];  // has the link that path i lacks
        const std::uint32_t child = with.parent[end] == (*cycle)[i] ? end : (*cycle)[i];
        rates.push_back(overlay_.links[with.link[child]].rate);
    }
    std::uint64_t ns = 0;
    const std::vector<std::uint64_t> shares = ring_shares(request_.bytes, rates, ns);
    consider(SyncShape::ring, pointers, shares);
    consider(SyncShape::ring, pointers, std::vector<std::uint64_t>(n, 1));
}

// Fills the pool with trees that avoid each other: each raises the length of what it uses, the more the nearer it comes
// to saturating it.
void Planner::spread_trees() {
    constexpr int use_bits = 8;
    std::vector<std::uint64_t> use(overlay_.links.size());  // how often saturated, in 2^-use_bits
    std::vector<std::uint64_t> member_use(overlay_.size());
    const auto note = [&](const Tree& tree) {
        std::vector<std::uint32_t> degree(overlay_.size());
        for (std::uint32_t rank = 0; rank < overlay_.size(); ++rank) {
            if (tree.link[rank] == nobody) continue;
            ++degree[rank];
            ++degree[tree.parent[rank]];
        }
        std::uint64_t carries = unlimited;
        for (std::uint32_t rank = 0; rank < overlay_.size(); ++rank) {
            if (tree.link[rank] != nobody) carries = std::min(carries, overlay_.links[tree.link[rank]].rate);
            carries = std::min(carries, overlay_.cap[rank] / degree[rank]);
        }
        for (std::uint32_t rank = 0; rank < overlay_.size(); ++rank) {
            if (tree.link[rank] != nobody) {
                use[tree.link[rank]] += (carries << use_bits) / overlay_.links[tree.link[rank]].rate;
            }
            if (overlay_.cap[rank] != unlimited) {
                member_use[rank] += mul_div(carries << use_bits, degree[rank], overlay_.cap[rank]);
            }
        }
    };
    // 4 to the power of the use, piecewise linear.
    const auto price = [&](std::uint32_t i) {
        const OverlayLink& link = overlay_.links[i];
        const std::uint64_t used = 2 * std::max({use[i], member_use[link.low], member_use[link.high]});
        const std::uint64_t whole = std::min<std::uint64_t>(used >> use_bits, 20);
        return ((std::uint64_t{1} << use_bits) + (used & ((1U << use_bits) - 1))) << whole;
    };
    for (const Known& known : pool_) note(known.tree);
    std::vector<std::uint64_t> costs(overlay_.links.size());
    std::uint64_t fastest = 0;
    for (const OverlayLink& link : overlay_.links) fastest = std::max(fastest, link.rate);
    for (std::uint32_t made = 0; made < effort_.cheap_trees; ++made) {
        for (std::uint32_t i = 0; i < costs.size(); ++i) {
            const std::uint64_t slower = std::min<std::uint64_t>(fastest * 16 / overlay_.links[i].rate, 1U << 18);
            costs[i] = price(i) * slower;
        }
        note(know(root_tree(overlay_, finder_.cheapest(costs))).tree);
    }
    std::vector<std::uint64_t> distance;
    const std::uint32_t root = pool_[1].tree.root;
    for (std::uint32_t made = 0; made < effort_.shallow_trees; ++made) {
        for (std::uint32_t i = 0; i < costs.size(); ++i) {
            costs[i] = saturate(u128{overlay_.links[i].round_ns} * price(i));
        }
        note(know(finder_.shortest(root, costs, distance)).tree);
    }
}

std::optional<Tree> Planner::cheapest_within(std::span<const std::uint64_t> prices, std::uint64_t most_fill_ns) {
    if (most_fill_ns == unlimited) return root_tree(overlay_, finder_.cheapest(prices));
    std::uint64_t least_chunk = unlimited;
    for (const OverlayLink& link : overlay_.links) {
        least_chunk = std::min({least_chunk, link.chunk_to_high_ns, link.chunk_to_low_ns});
    }
    std::optional<Tree> best;
    std::uint64_t best_cost = unlimited;
    for (std::uint32_t root = 0; root < overlay_.size(); ++root) {
        auto tree = finder_.bounded(root, prices, most_fill_ns + least_chunk);
        if (!tree) continue;
        std::uint64_t cost = 0;
        for (const std::uint32_t link : tree->link) cost += link == nobody ? 0 : prices[link];
        if (cost >= best_cost || fill_ns(overlay_, *tree, overlay_.chunk_bytes) > most_fill_ns) continue;
        best_cost = cost;
        best = std::move(tree);
    }
    return best;
}

// The best mixture of trees that fill within a limit. Returns the largest fill among the trees it uses, 0 if there is
// no such tree.
std::uint64_t Planner::try_mixture(std::uint64_t most_fill_ns) {
    Packing packing(overlay_);
    std::vector<const Known*> used;
    const auto add = [&](const Known& known) {
        packing.add(known.tree);
        used.push_back(&known);
    };
    for (const Known& known : pool_) {
        if (known.fill_ns <= most_fill_ns) add(known);
    }
    if (used.empty()) {
        std::vector<std::uint64_t> slowness;
        for (const OverlayLink& link : overlay_.links) slowness.push_back(fastest_bytes_per_s / link.rate);
        auto tree = cheapest_within(slowness, most_fill_ns);
        if (!tree) return 0;
        add(know(std::move(*tree)));
    }
    packing.solve(effort_.pivots * static_cast<std::uint32_t>(used.size()));
    for (std::uint32_t made = 0; made < effort_.generated_trees; ++made) {
        const std::vector<std::uint64_t> prices = packing.prices();
        auto tree = cheapest_within(prices, most_fill_ns);
        if (!tree) break;
        std::uint64_t cost = 0;
        for (const std::uint32_t link : tree->link) cost += link == nobody ? 0 : prices[link];
        if (most_fill_ns == unlimited) load_bound_ns_ = std::max(load_bound_ns_, packing.bound_ns(cost));
        constexpr std::uint64_t enough = Packing::one - Packing::one / 256;
        if (cost >= enough) break;
        add(know(std::move(*tree)));
        packing.solve(effort_.pivots);
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
    spread_trees();
    std::uint64_t fill = try_mixture(unlimited);
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
            packing.solve(effort_.pivots * static_cast<std::uint32_t>(trees.size()));
            consider(SyncShape::mixture, trees, packing.weights());
        }
        return;
    }
    std::uint64_t limit = fill;
    for (std::uint32_t step = 0; step < effort_.limits && fill > 0; ++step) {
        limit = std::min(fill - 1, limit / 16 * effort_.limit_numerator);
        // Smaller limits only add load: no gain is left once the bounds leave none.
        if (limit < fill_bound_ns_ || load_bound_ns_ + fill_bound_ns_ >= ns_ - ns_ / 128) return;
        fill = try_mixture(limit);
    }
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
