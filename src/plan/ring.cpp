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

// A member on a path, and the hop to the one after it: a chunk's times, without delay.
struct Place {
    std::uint32_t rank = 0;
    std::uint32_t link = 0;
    std::uint64_t delay_ns = 0;
    std::uint64_t there_ns = 0;  // along the path
    std::uint64_t back_ns = 0;
};

// Chunks of q bytes.
std::vector<Place> places_of(const Overlay& overlay, const std::vector<std::uint32_t>& cycle, std::uint64_t q) {
    std::vector<Place> places;
    places.reserve(cycle.size());
    for (const std::uint32_t i : links_of(overlay, cycle)) {
        const OverlayLink& link = overlay.links[i];
        const std::uint32_t rank = cycle[places.size()];
        const bool to_high = link.low == rank;
        places.push_back(
            {rank, i, link.delay_ns, hop_ns(overlay, link, to_high, q), hop_ns(overlay, link, !to_high, q)});
    }
    return places;
}

// Finds where to root paths, by sync_plan.h's fill; keeps its memory from one to the next.
class PathRooter {
public:
    explicit PathRooter(const Overlay& overlay) : overlay_(overlay), sums_(overlay.size()) {}

    // The place of the root with which the path fills fastest.
    std::size_t root_of(const std::vector<Place>& path, std::uint64_t q) {
        const std::size_t last = path.size() - 1;
        for (std::size_t i = 0; i < last; ++i) {
            const auto& [rank, link, delay_ns, there_ns, back_ns] = path[i];
            sums_[i + 1].there_ns = sums_[i].there_ns + delay_ns + there_ns;
            sums_[i + 1].back_ns = sums_[i].back_ns + delay_ns + back_ns;
            sums_[i + 1].least_before = std::min({sums_[i].least_before, there_ns, back_ns});
        }
        for (std::size_t i = last; i-- > 0;)
            sums_[i].least_after = std::min({sums_[i + 1].least_after, path[i].there_ns, path[i].back_ns});
        std::size_t best = 0;
        std::uint64_t best_ns = unlimited;
        for (std::size_t root = 0; root <= last; ++root) {
            const std::uint64_t ns = fill_with(path, root, q);
            if (ns >= best_ns) continue;
            best_ns = ns;
            best = root;
        }
        return best;
    }

private:
    // Of the hops before a place, delays included; and the fastest of those before and after it.
    struct Sums {
        std::uint64_t there_ns = 0;
        std::uint64_t back_ns = 0;
        std::uint64_t least_before = unlimited;
        std::uint64_t least_after = unlimited;
    };

    // A root that is no end of the path has two children, who share its caps; all others have one.
    [[nodiscard]] std::uint64_t fill_with(const std::vector<Place>& path, std::size_t root, std::uint64_t q) const {
        const std::size_t last = path.size() - 1;
        const bool shares = overlay_.capped && root > 0 && root < last;
        const std::uint64_t in = shares ? shared_hop_ns(overlay_.ingress[path[root].rank], q, 2) : 0;
        const std::uint64_t out = shares ? shared_hop_ns(overlay_.egress[path[root].rank], q, 2) : 0;
        std::uint64_t up = 0;
        std::uint64_t down = 0;
        std::uint64_t fastest = unlimited;
        if (root > 0) {
            const Sums& before = sums_[root - 1];
            const Place& hop = path[root - 1];
            const std::uint64_t rise = std::max(hop.there_ns, in);
            const std::uint64_t fall = std::max(hop.back_ns, out);
            up = before.there_ns + hop.delay_ns + rise;
            down = before.back_ns + hop.delay_ns + fall;
            fastest = std::min({before.least_before, rise, fall});
        }
        if (root < last) {
            const Sums& after = sums_[root + 1];
            const Place& hop = path[root];
            const std::uint64_t rise = std::max(hop.back_ns, in);
            const std::uint64_t fall = std::max(hop.there_ns, out);
            up = std::max(up, sums_[last].back_ns - after.back_ns + hop.delay_ns + rise);
            down = std::max(down, sums_[last].there_ns - after.there_ns + hop.delay_ns + fall);
            fastest = std::min({fastest, after.least_after, rise, fall});
        }
        return up + down - fastest;
    }

    const Overlay& overlay_;
    std::vector<Sums> sums_;  // per place
};

Tree hang_path(const std::vector<Place>& path, std::size_t root) {
    Tree tree;
    tree.root = path[root].rank;
    tree.parent.assign(path.size(), nobody);
    tree.link.assign(path.size(), nobody);
    tree.order.reserve(path.size());
    tree.parent[tree.root] = tree.root;
    tree.order.push_back(tree.root);
    const auto hang = [&](std::uint32_t rank, std::uint32_t parent, std::uint32_t link) {
        tree.parent[rank] = parent;
        tree.link[rank] = link;
        tree.order.push_back(rank);
    };
    for (std::size_t i = root; i-- > 0;) hang(path[i].rank, path[i + 1].rank, path[i].link);
    for (std::size_t i = root + 1; i < path.size(); ++i) hang(path[i].rank, path[i - 1].rank, path[i - 1].link);
    return tree;
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

std::vector<Tree> paths_of(const Overlay& overlay, const std::vector<std::uint32_t>& cycle, std::uint64_t q) {
    std::vector<Place> path = places_of(overlay, cycle, q);
    PathRooter rooter(overlay);
    std::vector<Tree> paths;
    paths.reserve(cycle.size());
    for (std::size_t cut = 0; cut < cycle.size(); ++cut) {
        // Starts after the link that it lacks, and ends before it.
        std::rotate(path.begin(), path.begin() + 1, path.end());
        paths.push_back(hang_path(path, rooter.root_of(path, q)));
    }
    return paths;
}

}  // namespace chaos::plan
