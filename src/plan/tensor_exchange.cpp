#include "plan/tensor_exchange.h"

#include "base/assert.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace chaos::plan {
namespace {

// What takes longer is no way to exchange anything (13 days); sums of such hops stay within their range.
constexpr std::uint64_t longest_hop_ns = std::uint64_t{1} << 50;

// All rooted trees of so many members are looked at, and of more only promising ones.
constexpr std::size_t every_tree_members = 4;
// From this many members on, roots that lie far from the others are not tried.
constexpr std::size_t every_root_members = 8;
constexpr std::size_t tried_roots = 2;

std::uint64_t bounded(std::uint64_t ns) {
    return std::min(ns, longest_hop_ns);
}

}  // namespace

TensorWires read_wires(const TensorRequest& request) {
    TensorWires wires;
    const std::size_t count = request.devices.size();
    wires.devices = count;
    wires.device_of.resize(count);
    std::iota(wires.device_of.begin(), wires.device_of.end(), 0U);
    std::sort(wires.device_of.begin(), wires.device_of.end(),
              [&](std::uint32_t x, std::uint32_t y) { return request.devices[x].id < request.devices[y].id; });
    std::vector<std::uint32_t> rank_of(count);
    for (std::uint32_t rank = 0; rank < count; ++rank) {
        const TensorDevice& device = request.devices[wires.device_of[rank]];
        rank_of[wires.device_of[rank]] = rank;
        wires.message_ns.push_back(bounded(device.message_ns));
        wires.egress.push_back(device.egress_bytes_per_s);
        wires.ingress.push_back(device.ingress_bytes_per_s);
    }
    wires.rates.resize(count * count);
    wires.delays.resize(count * count);
    for (const SyncLink& link : request.links) {
        const std::uint32_t a = rank_of[link.a];
        const std::uint32_t b = rank_of[link.b];
        wires.rates[wires.pair(a, b)] = link.a_to_b_bytes_per_s;
        wires.rates[wires.pair(b, a)] = link.b_to_a_bytes_per_s;
        wires.delays[wires.pair(a, b)] = wires.delays[wires.pair(b, a)] = bounded(link.delay_ns);
    }
    return wires;
}

MessageTimes::MessageTimes(const TensorWires& wires, std::uint64_t bytes) : wires_(wires) {
    for (const std::uint64_t rate : wires.egress) egress_ns_.push_back(bounded(transfer_ns(bytes, rate)));
    for (const std::uint64_t rate : wires.ingress) ingress_ns_.push_back(bounded(transfer_ns(bytes, rate)));
    hop_ns_.resize(wires.rates.size());
    for (std::uint32_t from = 0; from < wires.devices; ++from) {
        for (std::uint32_t to = 0; to < wires.devices; ++to) {
            const std::size_t pair = wires.pair(from, to);
            const std::uint64_t on_link = bounded(transfer_ns(bytes, wires.rates[pair]));
            hop_ns_[pair] = wires.message_ns[from] + std::max({on_link, egress_ns_[from], ingress_ns_[to]}) +
                            wires.delays[pair] + wires.message_ns[to];
        }
    }
}

std::uint64_t MessageTimes::direct(std::span<const std::uint32_t> members) const {
    const std::uint64_t others = members.size() - 1;
    std::uint64_t longest = 0;
    for (const std::uint32_t from : members) {
        longest = std::max(longest, 2 * others * wires_.message_ns[from]);
        for (const std::uint32_t to : members) {
            if (from == to) continue;
            longest = std::max(longest, hop(from, to) + std::max(sending_ns(from, others), taking_ns(to, others)));
        }
    }
    return longest;
}

std::uint64_t MessageTimes::star(std::span<const std::uint32_t> members, std::uint32_t hub) const {
    const std::uint64_t others = members.size() - 1;
    const std::uint32_t center = members[hub];
    std::uint64_t up = 0;
    std::uint64_t down = 0;
    for (const std::uint32_t other : members) {
        if (other == center) continue;
        up = std::max(up, hop(other, center));
        down = std::max(down, hop(center, other));
    }
    return up + std::max(taking_ns(center, others), sending_ns(center, others)) + down;
}

std::uint64_t MessageTimes::tree(std::span<const std::uint32_t> members, std::span<const std::uint32_t> parent) const {
    const std::size_t count = members.size();
    std::array<std::uint64_t, max_tensor_devices> children{};
    for (std::uint32_t i = 0; i < count; ++i) {
        if (parent[i] != i) ++children[parent[i]];
    }
    // Parents before children, level by level.
    std::array<std::uint32_t, max_tensor_devices> order{};
    std::size_t placed = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        if (parent[i] == i) order[placed++] = i;
    }
    CHAOS_ASSERT(placed == 1);
    for (std::size_t at = 0; at < placed; ++at) {
        for (std::uint32_t i = 0; i < count && children[order[at]] > 0; ++i) {
            if (parent[i] == order[at] && i != order[at]) order[placed++] = i;
        }
    }
    CHAOS_ASSERT(placed == count);
    std::array<std::uint64_t, max_tensor_devices> up{};
    for (std::size_t at = count; at-- > 0;) {
        const std::uint32_t i = order[at];
        if (const std::uint32_t above = parent[i]; above != i)
            up[above] = std::max(up[above], up[i] + hop(members[i], members[above]));
    }
    std::array<std::uint64_t, max_tensor_devices> down{};
    std::uint64_t last = 0;
    for (const std::uint32_t i : std::span(order).first(count)) {
        const std::uint32_t above = parent[i];
        if (above == i) {
            down[i] = up[i];
        } else {
            const std::uint32_t from = members[above];
            const std::uint64_t apart = std::max(taking_ns(from, children[above]), sending_ns(from, children[above]));
            down[i] = down[above] + apart + hop(from, members[i]);
        }
        last = std::max(last, down[i]);
    }
    return last;
}

std::uint64_t exchange_ns(const TensorWires& wires, std::span<const std::uint32_t> members, TensorExchange exchange,
                          std::span<const std::uint32_t> parent, std::uint64_t bytes) {
    switch (exchange) {
        case TensorExchange::alone:
            return 0;
        case TensorExchange::direct:
            return MessageTimes(wires, bytes).direct(members);
        case TensorExchange::scatter:
            return 2 * MessageTimes(wires, ceil_div(bytes, members.size())).direct(members);
        case TensorExchange::star:
        case TensorExchange::tree:
            return MessageTimes(wires, bytes).tree(members, parent);
    }
    return longest_ns;
}

Exchanges::Exchanges(const TensorRequest& request, const TensorWires& wires)
    : request_(request),
      wires_(wires),
      sums_(wires, request.model.width * sizeof(std::int64_t)),
      candidates_(wires, request.candidate_bytes) {}

std::uint64_t Exchanges::token_ns(std::uint64_t sum_ns, std::uint64_t candidates_ns) const {
    return std::min(saturate(u128{sum_ns} * 2 * request_.model.layers + candidates_ns), longest_ns);
}

ExchangeChoice Exchanges::best(std::span<const std::uint32_t> members) const {
    if (members.size() == 1) return {TensorExchange::alone, {}, 0};
    ExchangeChoice best_one;
    for (const TensorExchange exchange :
         {TensorExchange::direct, TensorExchange::scatter, TensorExchange::star, TensorExchange::tree}) {
        if (std::find(request_.exchanges.begin(), request_.exchanges.end(), exchange) == request_.exchanges.end())
            continue;
        ExchangeChoice choice = best(members, exchange);
        if (choice.token_ns < best_one.token_ns) best_one = std::move(choice);
    }
    return best_one;
}

ExchangeChoice Exchanges::best(std::span<const std::uint32_t> members, TensorExchange exchange) const {
    ExchangeChoice choice{exchange, {}, unlimited};
    const auto linked_with_all = [&](std::uint32_t hub) {
        return std::all_of(members.begin(), members.end(),
                           [&](std::uint32_t other) { return other == hub || wires_.linked(hub, other); });
    };
    if (exchange == TensorExchange::tree) return best_tree(members);
    if (exchange == TensorExchange::star) {
        for (std::uint32_t hub = 0; hub < members.size(); ++hub) {
            if (!linked_with_all(members[hub])) continue;
            const std::uint64_t ns = token_ns(sums_.star(members, hub), candidates_.star(members, hub));
            if (ns >= choice.token_ns) continue;
            choice.token_ns = ns;
            choice.parent.assign(members.size(), hub);
        }
    } else if (std::all_of(members.begin(), members.end(), linked_with_all)) {
        if (exchange == TensorExchange::direct) {
            choice.token_ns = token_ns(sums_.direct(members), candidates_.direct(members));
        } else {
            const auto of = [&](std::uint64_t bytes) { return exchange_ns(wires_, members, exchange, {}, bytes); };
            choice.token_ns = token_ns(of(request_.model.width * sizeof(std::int64_t)), of(request_.candidate_bytes));
        }
    }
    return choice;
}

void Exchanges::try_tree(std::span<const std::uint32_t> members, std::span<const std::uint32_t> parent,
                         ExchangeChoice& best) const {
    const std::uint64_t ns = token_ns(sums_.tree(members, parent), candidates_.tree(members, parent));
    if (ns >= best.token_ns) return;
    best.token_ns = ns;
    best.parent.assign(parent.begin(), parent.end());
}

ExchangeChoice Exchanges::best_tree(std::span<const std::uint32_t> members) const {
    ExchangeChoice choice{TensorExchange::tree, {}, unlimited};
    if (members.size() <= every_tree_members) {
        try_every_tree(members, choice);
        return choice;
    }
    // Roots in the order of their farthest neighbour; one that is linked with few counts as far.
    std::vector<std::pair<std::uint64_t, std::uint32_t>> roots;
    for (std::uint32_t root = 0; root < members.size(); ++root) {
        std::uint64_t far = 0;
        for (const std::uint32_t other : members) {
            if (other == members[root]) continue;
            far = saturating_add(
                far, wires_.linked(members[root], other) ? sums_.hop(members[root], other) : longest_hop_ns);
        }
        roots.emplace_back(far, root);
    }
    std::sort(roots.begin(), roots.end());
    if (members.size() > every_root_members) roots.resize(tried_roots);
    for (const auto& [far, root] : roots) {
        try_shortest_ways(members, root, choice);
        try_two_levels(members, root, choice);
    }
    return choice;
}

void Exchanges::try_every_tree(std::span<const std::uint32_t> members, ExchangeChoice& best) const {
    const auto count = static_cast<std::uint32_t>(members.size());
    std::vector<std::uint32_t> parent(count);
    const auto is_tree = [&](std::uint32_t root) {
        for (std::uint32_t i = 0; i < count; ++i) {
            if (i != root && (parent[i] == i || !wires_.linked(members[i], members[parent[i]]))) return false;
            std::uint32_t at = i;
            for (std::uint32_t hops = 0; hops < count; ++hops) at = parent[at];
            if (at != root) return false;
        }
        return true;
    };
    std::uint64_t all = 1;
    for (std::uint32_t i = 0; i < count; ++i) all *= count;
    for (std::uint64_t number = 0; number < all; ++number) {
        std::uint64_t left = number;
        std::uint32_t roots = 0;
        std::uint32_t root = 0;
        for (std::uint32_t i = 0; i < count; ++i) {
            parent[i] = static_cast<std::uint32_t>(left % count);
            left /= count;
            if (parent[i] != i) continue;
            ++roots;
            root = i;
        }
        if (roots == 1 && is_tree(root)) try_tree(members, parent, best);
    }
}

// Every member by its shortest way to the root.
void Exchanges::try_shortest_ways(std::span<const std::uint32_t> members, std::uint32_t root,
                                  ExchangeChoice& best) const {
    const std::size_t count = members.size();
    std::vector<std::uint64_t> distance(count, unlimited);
    std::vector<std::uint32_t> parent(count, root);
    std::vector<bool> done(count);
    distance[root] = 0;
    for (std::size_t step = 0; step < count; ++step) {
        std::size_t nearest = count;
        for (std::size_t i = 0; i < count; ++i) {
            if (!done[i] && distance[i] != unlimited && (nearest == count || distance[i] < distance[nearest]))
                nearest = i;
        }
        if (nearest == count) return;  // some cannot be reached
        done[nearest] = true;
        for (std::size_t i = 0; i < count; ++i) {
            if (done[i] || !wires_.linked(members[nearest], members[i])) continue;
            const std::uint64_t there =
                distance[nearest] + sums_.hop(members[nearest], members[i]) + sums_.hop(members[i], members[nearest]);
            if (there >= distance[i]) continue;
            distance[i] = there;
            parent[i] = static_cast<std::uint32_t>(nearest);
        }
    }
    try_tree(members, parent, best);
}

// Some near the root add up for the others: a hub with many others is slow.
void Exchanges::try_two_levels(std::span<const std::uint32_t> members, std::uint32_t root, ExchangeChoice& best) const {
    const std::size_t count = members.size();
    std::vector<std::pair<std::uint64_t, std::uint32_t>> near;
    for (std::uint32_t i = 0; i < count; ++i) {
        if (i != root && wires_.linked(members[root], members[i]))
            near.emplace_back(sums_.hop(members[root], members[i]) + sums_.hop(members[i], members[root]), i);
    }
    std::sort(near.begin(), near.end());
    // With as many below each as there are of them, neither the root nor they have many to listen to.
    std::size_t even = 2;
    while ((even + 1) * (even + 1) < count) ++even;
    for (std::size_t middles = std::max<std::size_t>(2, even - 1);
         middles <= std::min({even + 2, near.size(), (count - 1) / 2}); ++middles) {
        std::vector<std::uint32_t> parent(count, root);
        std::vector<std::uint32_t> below(count);
        std::vector<bool> middle(count);
        for (std::size_t i = 0; i < middles; ++i) middle[near[i].second] = true;
        bool reached = true;
        for (std::uint32_t i = 0; i < count; ++i) {
            if (i == root || middle[i]) continue;
            std::uint32_t chosen = root;
            for (std::size_t at = 0; at < middles; ++at) {
                const std::uint32_t one = near[at].second;
                if (!wires_.linked(members[one], members[i])) continue;
                if (chosen == root || below[one] < below[chosen]) chosen = one;
            }
            reached = reached && chosen != root;
            parent[i] = chosen;
            ++below[chosen];
        }
        if (reached) try_tree(members, parent, best);
    }
}

}  // namespace chaos::plan
