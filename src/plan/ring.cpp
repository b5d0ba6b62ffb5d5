#include "plan/ring.h"

#include "base/random.h"

#include <algorithm>

namespace chaos::plan {
namespace {

// The path under construction.
struct Path {
    std::vector<std::uint32_t> ranks;
    std::vector<std::uint32_t> place;  // of each rank on the path, or `nobody`

    void extend(std::uint32_t rank) {
        place[rank] = static_cast<std::uint32_t>(ranks.size());
        ranks.push_back(rank);
    }

    // With a link from the end to ranks[at]: ... at, (at + 1 ... end)  becomes  ... at, (end ... at + 1).
    void turn(std::uint32_t at) {
        std::reverse(ranks.begin() + at + 1, ranks.end());
        for (auto i = at + 1; i < ranks.size(); ++i) place[ranks[i]] = i;
    }
};

std::uint32_t link_between(const Overlay& overlay, std::uint32_t a, std::uint32_t b) {
    const auto near = overlay.of(a);
    const auto found = std::find_if(near.begin(), near.end(), [&](const Neighbour& n) { return n.rank == b; });
    return found == near.end() ? nobody : found->link;
}

}  // namespace

std::optional<std::vector<std::uint32_t>> find_cycle(const Overlay& overlay, std::uint64_t least_rate,
                                                     std::uint32_t effort) {
    const std::uint32_t n = overlay.size();
    if (n < 3) return std::nullopt;
    const auto usable = [&](const Neighbour& neighbour) { return overlay.links[neighbour.link].rate >= least_rate; };
    std::vector<std::uint32_t> degree(n);
    for (std::uint32_t rank = 0; rank < n; ++rank) {
        const auto near = overlay.of(rank);
        degree[rank] = static_cast<std::uint32_t>(std::count_if(near.begin(), near.end(), usable));
        if (degree[rank] < 2) return std::nullopt;
    }
    Path path;
    path.place.assign(n, nobody);
    path.extend(static_cast<std::uint32_t>(std::min_element(degree.begin(), degree.end()) - degree.begin()));
    std::vector<std::uint32_t> turns;
    for (std::uint32_t step = 0; step < effort; ++step) {
        const std::uint32_t end = path.ranks.back();
        std::uint32_t next = nobody;  // of those not yet on the path the one with the fewest links
        bool closes = false;
        turns.clear();
        for (const Neighbour& neighbour : overlay.of(end)) {
            if (!usable(neighbour)) continue;
            const std::uint32_t place = path.place[neighbour.rank];
            if (place == nobody) {
                if (next == nobody || degree[neighbour.rank] < degree[next]) next = neighbour.rank;
            } else {
                if (place == 0) closes = true;
                if (place + 2 < path.ranks.size()) turns.push_back(place);
            }
        }
        if (next != nobody) {
            path.extend(next);
            continue;
        }
        if (path.ranks.size() == n && closes) return path.ranks;
        if (turns.empty()) return std::nullopt;
        path.turn(turns[random_bits(n, step, end) % turns.size()]);
    }
    return std::nullopt;
}

std::optional<std::vector<std::uint32_t>> find_fast_cycle(const Overlay& overlay, std::uint32_t effort) {
    std::vector<std::uint64_t> rates;
    rates.reserve(overlay.links.size());
    for (const OverlayLink& link : overlay.links) rates.push_back(link.rate);
    std::sort(rates.begin(), rates.end());
    rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
    auto best = find_cycle(overlay, 0, effort);
    if (!best) return best;
    // Bisect for the fastest slowest link, as far as the search can tell.
    std::size_t low = 0;
    std::size_t high = rates.size();
    while (high - low > 1) {
        const std::size_t middle = low + (high - low) / 2;
        if (auto cycle = find_cycle(overlay, rates[middle], effort)) {
            best = std::move(cycle);
            low = middle;
        } else {
            high = middle;
        }
    }
    return best;
}

std::vector<std::uint32_t> links_of(const Overlay& overlay, const std::vector<std::uint32_t>& cycle) {
    std::vector<std::uint32_t> links(cycle.size());
    for (std::size_t i = 0; i < cycle.size(); ++i) {
        links[i] = link_between(overlay, cycle[i], cycle[(i + 1) % cycle.size()]);
    }
    return links;
}

std::vector<std::vector<std::uint32_t>> all_cycles(const Overlay& overlay) {
    std::vector<std::vector<std::uint32_t>> cycles;
    const std::uint32_t n = overlay.size();
    if (n < 3) return cycles;
    // Depth first from rank 0; each cycle is found in both directions and kept in one.
    std::vector<std::uint32_t> path{0};
    std::vector<std::uint32_t> tried{0};  // neighbours of each place
    std::vector<bool> taken(n);
    taken[0] = true;
    while (!path.empty()) {
        const auto near = overlay.of(path.back());
        if (tried.back() == near.size()) {
            taken[path.back()] = false;
            path.pop_back();
            tried.pop_back();
            continue;
        }
        const std::uint32_t next = near[tried.back()++].rank;
        if (next == 0 && path.size() == n && path[1] < path.back()) cycles.push_back(path);
        if (taken[next]) continue;
        taken[next] = true;
        path.push_back(next);
        tried.push_back(0);
    }
    return cycles;
}

std::vector<Tree> paths_of(const Overlay& overlay, const std::vector<std::uint32_t>& cycle) {
    const std::size_t n = cycle.size();
    const std::vector<std::uint32_t> link = links_of(overlay, cycle);
    std::vector<Tree> paths(n);
    std::vector<std::uint64_t> far(n);
    for (std::size_t cut = 0; cut < n; ++cut) {
        if (overlay.capped && n <= most_members_to_try_all_roots) {
            // A root has two children, which a capped member may be too slow for.
            std::vector<std::uint32_t> rest = link;
            rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(cut));
            paths[cut] = root_tree(overlay, rest);
            continue;
        }
        // The path starts at place cut + 1 and ends at place cut.
        const auto at = [&](std::size_t i) { return (cut + 1 + i) % n; };
        far[0] = 0;
        for (std::size_t i = 1; i < n; ++i) far[i] = far[i - 1] + overlay.links[link[at(i - 1)]].round_ns;
        std::size_t middle = 0;
        const auto reach = [&](std::size_t i) { return std::max(far[i], far[n - 1] - far[i]); };
        while (middle + 1 < n && reach(middle + 1) < reach(middle)) ++middle;
        Tree& tree = paths[cut];
        tree.root = cycle[at(middle)];
        tree.parent.assign(n, nobody);
        tree.link.assign(n, nobody);
        tree.order.reserve(n);
        tree.parent[tree.root] = tree.root;
        tree.order.push_back(tree.root);
        for (std::size_t i = middle; i-- > 0;) {
            tree.parent[cycle[at(i)]] = cycle[at(i + 1)];
            tree.link[cycle[at(i)]] = link[at(i)];
            tree.order.push_back(cycle[at(i)]);
        }
        for (std::size_t i = middle + 1; i < n; ++i) {
            tree.parent[cycle[at(i)]] = cycle[at(i - 1)];
            tree.link[cycle[at(i)]] = link[at(i - 1)];
            tree.order.push_back(cycle[at(i)]);
        }
    }
    return paths;
}

}  // namespace chaos::plan
