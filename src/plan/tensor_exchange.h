// How long the members of a tensor plan take to add up what each of them has (tensor_plan.h has the formulas), and by
// which exchange they are fastest.
#pragma once

#include "plan/tensor_plan.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace chaos::plan {

// Devices are ranks here: their places in ascending order of id.
struct TensorWires {
    std::size_t devices = 0;
    std::vector<std::uint32_t> device_of;        // rank -> index in the request
    std::vector<std::uint64_t> rates;            // bytes per second from a to b at a * devices + b; 0: no link
    std::vector<std::uint64_t> delays;           // likewise
    std::vector<std::uint64_t> message_ns;       // of each rank
    std::vector<std::uint64_t> egress, ingress;  // likewise, bytes per second

    [[nodiscard]] std::size_t pair(std::uint32_t a, std::uint32_t b) const { return std::size_t{a} * devices + b; }
    [[nodiscard]] bool linked(std::uint32_t a, std::uint32_t b) const {
        return rates[pair(a, b)] != 0 && rates[pair(b, a)] != 0;
    }
};
[[nodiscard]] TensorWires read_wires(const TensorRequest& request);

// What messages of one size take.
class MessageTimes {
public:
    MessageTimes(const TensorWires& wires, std::uint64_t bytes);

    // Members are ascending ranks; all of them are linked.
    [[nodiscard]] std::uint64_t direct(std::span<const std::uint32_t> members) const;
    // hub is the place in `members` of the one that adds.
    [[nodiscard]] std::uint64_t star(std::span<const std::uint32_t> members, std::uint32_t hub) const;
    // The same over several levels. parent[i] is the place in `members` of the parent of member i; the root's is its
    // own.
    [[nodiscard]] std::uint64_t tree(std::span<const std::uint32_t> members,
                                     std::span<const std::uint32_t> parent) const;
    // One message with nothing beside it, with both ends' work.
    [[nodiscard]] std::uint64_t hop(std::uint32_t from, std::uint32_t to) const {
        return hop_ns_[wires_.pair(from, to)];
    }

private:
    // From the first of so many messages that a device sends or takes to the last one.
    [[nodiscard]] std::uint64_t sending_ns(std::uint32_t from, std::uint64_t messages) const {
        return (messages - 1) * std::max(wires_.message_ns[from], egress_ns_[from]);
    }
    [[nodiscard]] std::uint64_t taking_ns(std::uint32_t to, std::uint64_t messages) const {
        return (messages - 1) * std::max(wires_.message_ns[to], ingress_ns_[to]);
    }

    const TensorWires& wires_;
    std::vector<std::uint64_t> hop_ns_;  // of each pair
    std::vector<std::uint64_t> egress_ns_, ingress_ns_;
};

struct ExchangeChoice {
    TensorExchange exchange = TensorExchange::alone;
    std::vector<std::uint32_t> parent;   // as of MessageTimes::tree, where there is one
    std::uint64_t token_ns = unlimited;  // of all exchanges of a token; unlimited: there is no way
};

class Exchanges {
public:
    Exchanges(const TensorRequest& request, const TensorWires& wires);

    // The fastest of those that the request allows.
    [[nodiscard]] ExchangeChoice best(std::span<const std::uint32_t> members) const;
    // The fastest of one kind.
    [[nodiscard]] ExchangeChoice best(std::span<const std::uint32_t> members, TensorExchange exchange) const;

private:
    [[nodiscard]] std::uint64_t token_ns(std::uint64_t sum_ns, std::uint64_t candidates_ns) const;
    [[nodiscard]] ExchangeChoice best_tree(std::span<const std::uint32_t> members) const;
    void try_tree(std::span<const std::uint32_t> members, std::span<const std::uint32_t> parent,
                  ExchangeChoice& best) const;
    void try_every_tree(std::span<const std::uint32_t> members, ExchangeChoice& best) const;
    void try_shortest_ways(std::span<const std::uint32_t> members, std::uint32_t root, ExchangeChoice& best) const;
    void try_two_levels(std::span<const std::uint32_t> members, std::uint32_t root, ExchangeChoice& best) const;

    const TensorRequest& request_;
    const TensorWires& wires_;
    MessageTimes sums_;
    MessageTimes candidates_;
};

// One exchange of `bytes` in the way that was chosen.
[[nodiscard]] std::uint64_t exchange_ns(const TensorWires& wires, std::span<const std::uint32_t> members,
                                        TensorExchange exchange, std::span<const std::uint32_t> parent,
                                        std::uint64_t bytes);

}  // namespace chaos::plan
