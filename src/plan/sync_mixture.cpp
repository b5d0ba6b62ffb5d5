#include "plan/packing.h"
#include "plan/sync_search.h"

#include <algorithm>

namespace chaos::plan {
namespace {

// Of the pool's trees so many, the latest, begin a mixture.
constexpr std::size_t most_trees_to_start = 24;

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

}  // namespace

// Fills the pool with trees that avoid each other.
void SyncSearch::spread_trees() {
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
void SyncSearch::spread_trees_within(std::uint64_t most_fill_ns) {
    Usage usage(overlay_);
    std::vector<std::uint64_t> costs(overlay_.links.size());
    for (std::uint32_t root = 0; root < overlay_.size(); ++root) {
        for (std::uint32_t i = 0; i < costs.size(); ++i) costs[i] = usage.price(i);
        if (auto tree = cheapest_below(root, costs, most_fill_ns)) usage.note(know(std::move(tree->first)).tree);
    }
}

// The cheapest tree below a root that fills in time, and its price.
std::optional<std::pair<Tree, std::uint64_t>> SyncSearch::cheapest_below(std::uint32_t root,
                                                                         std::span<const std::uint64_t> prices,
                                                                         std::uint64_t most_fill_ns) {
    spend(std::uint64_t{8} * overlay_.size() + 4 * overlay_.links.size());
    const auto found = finder_.bounded(root, prices, saturating_add(most_fill_ns, least_chunk_ns_));
    if (!found) return std::nullopt;
    Tree tree = hang_tree(overlay_, found->links, root);
    if (overlay_.capped && fill_ns(overlay_, tree, overlay_.chunk_bytes) > most_fill_ns) return std::nullopt;
    return std::pair(std::move(tree), found->price);
}

std::optional<Tree> SyncSearch::cheapest_within(std::span<const std::uint64_t> prices, std::uint64_t most_fill_ns) {
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
std::uint64_t SyncSearch::try_mixture(std::uint64_t most_fill_ns, std::uint32_t generated_trees) {
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
        slowness.reserve(overlay_.links.size());
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

// The shallower half of the pool alone; `fill` is that of the mixture of all.
void SyncSearch::try_shallow_mixture(std::uint64_t fill) {
    std::vector<std::uint64_t> fills;
    fills.reserve(pool_.size());
    for (const Known& known : pool_) fills.push_back(known.fill_ns);
    const auto middle = fills.begin() + static_cast<std::ptrdiff_t>(fills.size() / 2);
    std::nth_element(fills.begin(), middle, fills.end());
    if (*middle >= fill) return;
    Packing packing(overlay_);
    std::vector<const Tree*> trees;
    for (const Known& known : pool_) {
        if (known.fill_ns > *middle) continue;
        packing.add(known.tree);
        trees.push_back(&known.tree);
    }
    packing.solve(work_);
    consider(SyncShape::mixture, trees, packing.weights());
}

void SyncSearch::try_mixtures() {
    if (!knows_all_) spread_trees();
    work_ = effort_.work;
    // Where filling takes most of the time, trees that fill slowly are not worth looking at.
    std::uint64_t limit = effort_.limits_fill && useful_fill() < pool_[0].fill_ns ? useful_fill() : unlimited;
    const std::uint32_t at_first = knows_all_ ? effort_.generated_trees : effort_.trial_trees;
    std::uint64_t fill = try_mixture(limit, limit == unlimited ? effort_.generated_trees : at_first);
    if (!effort_.limits_fill) {
        try_shallow_mixture(fill);
        return;
    }
    // Ever smaller limits, each with a few trees; what is left of the work goes to the most promising one.
    std::uint64_t best_limit = limit;
    std::uint64_t previous = limit;
    const std::uint64_t reserve = knows_all_ ? 0 : work_ / 2;
    while (fill > 0 && work_ > reserve) {
        limit = std::min(fill - 1, useful_fill());
        if (!knows_all_) limit = std::min(limit, previous / 16 * effort_.limit_numerator);
        previous = limit;
        if (limit < fill_bound_ns_) break;
        const std::uint64_t before = best_.ns;
        fill = try_mixture(limit, at_first);
        if (best_.ns < before) best_limit = limit;
    }
    if (!knows_all_ && best_limit != unlimited) try_mixture(best_limit, effort_.generated_trees);
}

}  // namespace chaos::plan
