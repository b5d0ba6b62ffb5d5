// Names of things: nodes, their incarnations, views, links. Small values, ordered, so that ties break alike everywhere.
#pragma once

#include "base/hash.h"

#include <compare>
#include <cstdint>
#include <cstring>
#include <string>

namespace chaos::cluster {

// Of a node's own monotonic clock. Clocks of two nodes are never compared.
using Nanoseconds = std::int64_t;
inline constexpr Nanoseconds millisecond = 1'000'000;
inline constexpr Nanoseconds second = 1'000 * millisecond;

// The first half of the SHA-256 of the node's public key.
struct NodeId {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    auto operator<=>(const NodeId&) const = default;
};

// One life of a node. A process that starts again, or comes back after it was thrown out, takes a larger incarnation.
struct MemberId {
    NodeId node;
    std::uint64_t incarnation = 0;
    auto operator<=>(const MemberId&) const = default;
};

// An undirected link; its ends in order.
struct LinkId {
    NodeId a;
    NodeId b;
    auto operator<=>(const LinkId&) const = default;

    [[nodiscard]] bool touches(NodeId node) const { return a == node || b == node; }
    [[nodiscard]] NodeId other(NodeId node) const { return node == a ? b : a; }
};
[[nodiscard]] inline LinkId link_between(NodeId x, NodeId y) {
    return x < y ? LinkId{.a = x, .b = y} : LinkId{.a = y, .b = x};
}

// A view's name, an institution's root, a run: SHA-256 digests.
using Name = Digest;

// Enough digits to tell things apart in a message for people.
[[nodiscard]] std::string brief(NodeId node);
[[nodiscard]] std::string brief(const Name& name);

struct HashNodeId {
    std::size_t operator()(NodeId node) const { return node.high ^ (node.low * 0x9e3779b97f4a7c15U); }
};
struct HashName {
    std::size_t operator()(const Name& name) const {
        std::size_t head = 0;
        std::memcpy(&head, name.data(), sizeof head);
        return head;
    }
};

}  // namespace chaos::cluster
