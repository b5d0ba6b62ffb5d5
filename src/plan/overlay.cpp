#include "plan/overlay.h"

#include "base/assert.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace chaos::plan {
namespace {

// A hop ends here, so that the longest way through all members stays within 64 bits.
constexpr std::uint64_t longest_hop_ns = longest_ns / max_sync_members / 4;

std::string name_of_member(const SyncRequest& request, std::uint32_t index) {
    return "member " + std::to_string(request.members[index].id);
}

Result<void> check(const SyncRequest& request) {
    if (request.members.empty()) return Error{"the sync plan has no member"};
    if (request.members.size() > max_sync_members || request.links.size() > max_sync_links) {
        return Error{"a sync plan covers at most " + std::to_string(max_sync_members) + " members and " +
                     std::to_string(max_sync_links) + " links"};
    }
    if (request.chunk_bytes == 0 || request.align_bytes == 0) {
        return Error{"the sync plan needs chunks and an alignment of at least one byte"};
    }
    if (request.bytes > std::uint64_t{1} << 50) return Error{"a sync plan reduces at most 1024 TiB"};
    for (const SyncLink& link : request.links) {
        if (link.a >= request.members.size() || link.b >= request.members.size()) {
            return Error{"a link of the sync plan ends at a member that is not listed"};
        }
        if (link.a == link.b) return Error{name_of_member(request, link.a) + " has a link to itself"};
    }
    return {};
}

Result<void> rank_members(const SyncRequest& request, Overlay& overlay) {
    overlay.member_of.resize(request.members.size());
    std::iota(overlay.member_of.begin(), overlay.member_of.end(), 0U);
    std::sort(overlay.member_of.begin(), overlay.member_of.end(),
              [&](std::uint32_t a, std::uint32_t b) { return request.members[a].id < request.members[b].id; });
    overlay.rank_of.resize(request.members.size());
    for (std::uint32_t rank = 0; rank < overlay.size(); ++rank) {
        const SyncMember& member = request.members[overlay.member_of[rank]];
        overlay.rank_of[overlay.member_of[rank]] = rank;
        if (rank > 0 && request.members[overlay.member_of[rank - 1]].id == member.id) {
            return Error{"member " + std::to_string(member.id) + " is listed twice"};
        }
        const auto bounded = [](std::uint64_t rate) { return rate >= fastest_bytes_per_s ? unlimited : rate; };
        overlay.ingress.push_back(bounded(member.ingress_bytes_per_s));
        overlay.egress.push_back(bounded(member.egress_bytes_per_s));
        overlay.cap.push_back(std::min(overlay.ingress.back(), overlay.egress.back()));
        if (overlay.cap.back() != unlimited) overlay.capped = true;
        if (overlay.cap.back() == 0 && request.members.size() > 1) {
            return Error{"member " + std::to_string(member.id) + " may not send or receive: its cap is 0"};
        }
    }
    return {};
}

// By (low, high). Sorting keys instead of links spares moving them about.
void sort_by_ends(std::vector<OverlayLink>& links) {
    std::vector<std::uint64_t> keys(links.size());
    for (std::size_t i = 0; i < links.size(); ++i) {
        keys[i] = std::uint64_t{links[i].low} << 40 | std::uint64_t{links[i].high} << 20 | i;
    }
    std::sort(keys.begin(), keys.end());
    std::vector<OverlayLink> sorted;
    sorted.reserve(links.size());
    for (const std::uint64_t key : keys) sorted.push_back(links[key & 0xfffff]);
    links = std::move(sorted);
}

Result<void> take_links(const SyncRequest& request, Overlay& overlay) {
    overlay.links.reserve(request.links.size());
    for (const SyncLink& link : request.links) {
        const std::uint32_t a = overlay.rank_of[link.a];
        const std::uint32_t b = overlay.rank_of[link.b];
        OverlayLink& taken = overlay.links.emplace_back();
        taken.low = std::min(a, b);
        taken.high = std::max(a, b);
        taken.to_high = std::min(a < b ? link.a_to_b_bytes_per_s : link.b_to_a_bytes_per_s, fastest_bytes_per_s);
        taken.to_low = std::min(a < b ? link.b_to_a_bytes_per_s : link.a_to_b_bytes_per_s, fastest_bytes_per_s);
        taken.rate = std::min(taken.to_high, taken.to_low);
        taken.delay_ns = std::min(link.delay_ns, longest_hop_ns);
    }
    sort_by_ends(overlay.links);
    for (std::size_t i = 1; i < overlay.links.size(); ++i) {
        const OverlayLink& link = overlay.links[i];
        if (link.low != overlay.links[i - 1].low || link.high != overlay.links[i - 1].high) continue;
        return Error{name_of_member(request, overlay.member_of[link.low]) + " and " +
                     name_of_member(request, overlay.member_of[link.high]) + " have two links; list one"};
    }
    std::erase_if(overlay.links, [](const OverlayLink& link) { return link.rate == 0; });
    for (OverlayLink& link : overlay.links) {
        link.chunk_to_high_ns = hop_ns(overlay, link, true, overlay.chunk_bytes);
        link.chunk_to_low_ns = hop_ns(overlay, link, false, overlay.chunk_bytes);
        link.round_ns = std::max<std::uint64_t>(1, 2 * link.delay_ns + link.chunk_to_high_ns + link.chunk_to_low_ns);
    }
    return {};
}

void index_neighbours(Overlay& overlay) {
    overlay.first.assign(overlay.size() + 1, 0);
    for (const OverlayLink& link : overlay.links) {
        ++overlay.first[link.low + 1];
        ++overlay.first[link.high + 1];
    }
    for (std::uint32_t rank = 0; rank < overlay.size(); ++rank) overlay.first[rank + 1] += overlay.first[rank];
    overlay.neighbours.resize(2 * overlay.links.size());
    std::vector<std::uint32_t> next(overlay.first.begin(), overlay.first.end() - 1);
    for (std::uint32_t i = 0; i < overlay.links.size(); ++i) {
        const OverlayLink& link = overlay.links[i];
        overlay.neighbours[next[link.low]++] = {link.high, i};
        overlay.neighbours[next[link.high]++] = {link.low, i};
    }
}

Result<void> check_connected(const SyncRequest& request, const Overlay& overlay) {
    std::vector<bool> reached(overlay.size());
    std::vector<std::uint32_t> queue{0};
    reached[0] = true;
    for (std::size_t i = 0; i < queue.size(); ++i) {
        for (const Neighbour& neighbour : overlay.of(queue[i])) {
            if (reached[neighbour.rank]) continue;
            reached[neighbour.rank] = true;
            queue.push_back(neighbour.rank);
        }
    }
    if (queue.size() == overlay.size()) return {};
    const auto cut_off = static_cast<std::uint32_t>(std::find(reached.begin(), reached.end(), false) - reached.begin());
    return Error{"the overlay is in pieces: no path of usable links leads from " +
                 name_of_member(request, overlay.member_of[0]) + " to " +
                 name_of_member(request, overlay.member_of[cut_off])};
}

// Neighbours within a tree, as Overlay keeps those of the overlay.
struct TreeNeighbours {
    std::vector<std::uint32_t> first;
    std::vector<Neighbour> neighbours;

    TreeNeighbours(const Overlay& overlay, std::span<const std::uint32_t> links) : first(overlay.size() + 1) {
        for (const std::uint32_t i : links) {
            ++first[overlay.links[i].low + 1];
            ++first[overlay.links[i].high + 1];
        }
        for (std::uint32_t rank = 0; rank < overlay.size(); ++rank) first[rank + 1] += first[rank];
        neighbours.resize(2 * links.size());
        std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
        for (const std::uint32_t i : links) {
            const OverlayLink& link = overlay.links[i];
            neighbours[next[link.low]++] = {link.high, i};
            neighbours[next[link.high]++] = {link.low, i};
        }
    }
};

void hang_from(const TreeNeighbours& near, std::uint32_t root, Tree& tree) {
    tree.root = root;
    tree.parent.assign(near.first.size() - 1, nobody);
    tree.link.assign(near.first.size() - 1, nobody);
    tree.order.assign(1, root);
    tree.parent[root] = root;
    for (std::size_t i = 0; i < tree.order.size(); ++i) {
        const std::uint32_t rank = tree.order[i];
        for (std::uint32_t k = near.first[rank]; k < near.first[rank + 1]; ++k) {
            const Neighbour& neighbour = near.neighbours[k];
            if (neighbour.rank == tree.parent[rank] || tree.parent[neighbour.rank] != nobody) continue;
            tree.parent[neighbour.rank] = rank;
            tree.link[neighbour.rank] = neighbour.link;
            tree.order.push_back(neighbour.rank);
        }
    }
    CHAOS_ASSERT(tree.order.size() == tree.parent.size());
}

// Distance of each rank from the root there and back, and the rank that is farthest (the lowest of equals).
std::uint32_t farthest(const Overlay& overlay, const Tree& tree, std::vector<std::uint64_t>& distance) {
    distance.assign(tree.parent.size(), 0);
    std::uint32_t last = tree.root;
    for (std::size_t i = 1; i < tree.order.size(); ++i) {
        const std::uint32_t rank = tree.order[i];
        distance[rank] = distance[tree.parent[rank]] + overlay.links[tree.link[rank]].round_ns;
        if (distance[rank] > distance[last] || (distance[rank] == distance[last] && rank < last)) last = rank;
    }
    return last;
}

}  // namespace

Result<Overlay> read_overlay(const SyncRequest& request) {
    CHAOS_CHECK(check(request));
    Overlay overlay;
    overlay.bytes = request.bytes;
    overlay.chunk_bytes = std::min(request.chunk_bytes, request.bytes);
    CHAOS_CHECK(rank_members(request, overlay));
    CHAOS_CHECK(take_links(request, overlay));
    index_neighbours(overlay);
    CHAOS_CHECK(check_connected(request, overlay));
    return overlay;
}

Tree root_tree(const Overlay& overlay, std::span<const std::uint32_t> links) {
    CHAOS_ASSERT(links.size() + 1 == overlay.size());
    const TreeNeighbours near(overlay, links);
    Tree tree;
    if (overlay.size() <= most_members_to_try_all_roots) {
        Tree best;
        std::uint64_t best_ns = unlimited;
        for (std::uint32_t root = 0; root < overlay.size(); ++root) {
            hang_from(near, root, tree);
            const std::uint64_t ns = fill_ns(overlay, tree, overlay.chunk_bytes);
            if (ns >= best_ns) continue;
            best_ns = ns;
            std::swap(best, tree);
        }
        return best;
    }
    std::vector<std::uint64_t> distance;
    hang_from(near, 0, tree);
    hang_from(near, farthest(overlay, tree, distance), tree);
    const std::uint32_t end = farthest(overlay, tree, distance);
    std::uint32_t middle = end;
    while (middle != tree.root && distance[middle] > distance[end] - distance[middle]) {
        const std::uint32_t next = tree.parent[middle];
        // The middle is the rank whose farther end is nearest.
        if (std::max(distance[next], distance[end] - distance[next]) > distance[middle]) break;
        middle = next;
    }
    hang_from(near, middle, tree);
    return tree;
}

Tree hang_tree(const Overlay& overlay, std::span<const std::uint32_t> links, std::uint32_t root) {
    Tree tree;
    hang_from(TreeNeighbours(overlay, links), root, tree);
    return tree;
}

Tree tree_of_parents(const Overlay& overlay, std::vector<std::uint32_t> parent) {
    CHAOS_ASSERT(parent.size() == overlay.size());
    std::vector<std::uint32_t> links;
    std::uint32_t root = nobody;
    for (std::uint32_t rank = 0; rank < overlay.size(); ++rank) {
        if (parent[rank] == rank) {
            CHAOS_ASSERT(root == nobody);
            root = rank;
            continue;
        }
        const auto near = overlay.of(rank);
        const auto found =
            std::find_if(near.begin(), near.end(), [&](const Neighbour& n) { return n.rank == parent[rank]; });
        CHAOS_ASSERT(found != near.end());
        links.push_back(found->link);
    }
    CHAOS_ASSERT(root != nobody);
    return hang_tree(overlay, links, root);
}

std::uint64_t hop_ns(const Overlay& overlay, const OverlayLink& link, bool to_high, std::uint64_t q) {
    const std::uint32_t from = to_high ? link.low : link.high;
    const std::uint32_t to = to_high ? link.high : link.low;
    const std::uint64_t rate = to_high ? link.to_high : link.to_low;
    return std::min(transfer_ns(q, std::min({rate, overlay.egress[from], overlay.ingress[to]})), longest_hop_ns);
}

std::uint64_t shared_hop_ns(std::uint64_t cap, std::uint64_t q, std::uint32_t children) {
    return std::min(transfer_ns(saturate(u128{q} * children), cap), longest_hop_ns);
}

std::uint64_t fill_ns(const Overlay& overlay, const Tree& tree, std::uint64_t q) {
    const std::size_t n = tree.parent.size();
    if (n == 1 || q == 0) return 0;
    const bool full = q == overlay.chunk_bytes;
    // Called for every root of every small tree: those stay off the heap.
    std::array<std::uint64_t, std::size_t{2} * most_members_to_try_all_roots> few;
    std::vector<std::uint64_t> many;
    if (n > most_members_to_try_all_roots) many.resize(2 * n);
    std::uint64_t* const up = many.empty() ? few.data() : many.data();
    std::uint64_t* const down = up + n;
    up[tree.root] = 0;
    down[tree.root] = 0;
    std::vector<std::uint32_t> children;
    if (overlay.capped) {
        children.assign(n, 0);
        for (std::size_t i = 1; i < n; ++i) ++children[tree.parent[tree.order[i]]];
    }
    std::uint64_t longest_up = 0;
    std::uint64_t longest_down = 0;
    std::uint64_t fastest = unlimited;
    for (std::size_t i = 1; i < n; ++i) {
        const std::uint32_t rank = tree.order[i];
        const std::uint32_t parent = tree.parent[rank];
        const OverlayLink& link = overlay.links[tree.link[rank]];
        const bool parent_high = parent == link.high;
        std::uint64_t rise = 0;
        std::uint64_t fall = 0;
        if (full) {
            rise = parent_high ? link.chunk_to_high_ns : link.chunk_to_low_ns;
            fall = parent_high ? link.chunk_to_low_ns : link.chunk_to_high_ns;
        } else {
            rise = hop_ns(overlay, link, parent_high, q);
            fall = hop_ns(overlay, link, !parent_high, q);
        }
        if (overlay.capped && children[parent] > 1) {
            rise = std::max(rise, shared_hop_ns(overlay.ingress[parent], q, children[parent]));
            fall = std::max(fall, shared_hop_ns(overlay.egress[parent], q, children[parent]));
        }
        fastest = std::min({fastest, rise, fall});
        up[rank] = up[parent] + link.delay_ns + rise;
        down[rank] = down[parent] + link.delay_ns + fall;
        longest_up = std::max(longest_up, up[rank]);
        longest_down = std::max(longest_down, down[rank]);
    }
    return longest_up + longest_down - fastest;
}

std::uint64_t load_ns(const Overlay& overlay, std::span<const Portion> portions) {
    std::vector<std::uint64_t> load(overlay.links.size());
    std::vector<std::uint64_t> touched(overlay.size());
    for (const Portion& portion : portions) {
        for (const std::uint32_t link : portion.tree->link) {
            if (link != nobody) load[link] += portion.bytes;
        }
    }
    std::uint64_t longest = 0;
    for (std::size_t i = 0; i < load.size(); ++i) {
        if (load[i] == 0) continue;
        longest = std::max(longest, transfer_ns(load[i], overlay.links[i].rate));
        touched[overlay.links[i].low] = saturating_add(touched[overlay.links[i].low], load[i]);
        touched[overlay.links[i].high] = saturating_add(touched[overlay.links[i].high], load[i]);
    }
    if (overlay.capped) {
        for (std::uint32_t rank = 0; rank < overlay.size(); ++rank) {
            longest = std::max(longest, transfer_ns(touched[rank], overlay.cap[rank]));
        }
    }
    return longest;
}

std::uint64_t predict_ns(const Overlay& overlay, std::span<const Portion> portions) {
    std::uint64_t longest = 0;
    for (const Portion& portion : portions) {
        longest = std::max(longest, fill_ns(overlay, *portion.tree, std::min(portion.bytes, overlay.chunk_bytes)));
    }
    return std::min(saturating_add(load_ns(overlay, portions), longest), longest_ns);
}

}  // namespace chaos::plan
