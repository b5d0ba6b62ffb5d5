// The largest flow through a network of whole capacities (Dinic's algorithm). Deterministic: arcs are tried in the
// order in which they were added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace chaos::plan {

class FlowNetwork {
public:
    explicit FlowNetwork(std::uint32_t nodes) : arcs_of_(nodes) {}

    // Returns the arc's number.
    std::uint32_t add_arc(std::uint32_t from, std::uint32_t to);

    // Forgets the flow through the arc.
    void set_capacity(std::uint32_t arc, std::uint64_t capacity);

    // Capacities must not add up to more than 64 bits hold.
    std::uint64_t maximise(std::uint32_t source, std::uint32_t sink);

    [[nodiscard]] std::uint64_t flow(std::uint32_t arc) const { return arcs_[std::size_t{2} * arc + 1].left; }

private:
    struct Arc {
        std::uint32_t to = 0;
        std::uint64_t left = 0;  // capacity not used; the reverse arc's is the flow
    };

    bool find_levels(std::uint32_t source, std::uint32_t sink);
    std::uint64_t push(std::uint32_t node, std::uint32_t sink, std::uint64_t most);

    std::vector<Arc> arcs_;  // arc k and its reverse at 2 k and 2 k + 1
    std::vector<std::vector<std::uint32_t>> arcs_of_;
    std::vector<std::uint32_t> level_;
    std::vector<std::uint32_t> next_;
    std::vector<std::uint32_t> queue_;
};

}  // namespace chaos::plan
