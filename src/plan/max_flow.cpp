#include "plan/max_flow.h"

#include <algorithm>
#include <limits>

namespace chaos::plan {
namespace {

constexpr std::uint32_t unreached = std::numeric_limits<std::uint32_t>::max();

}  // namespace

std::uint32_t FlowNetwork::add_arc(std::uint32_t from, std::uint32_t to) {
    const auto number = static_cast<std::uint32_t>(arcs_.size());
    arcs_.push_back({to, 0});
    arcs_.push_back({from, 0});
    arcs_of_[from].push_back(number);
    arcs_of_[to].push_back(number + 1);
    return number / 2;
}

void FlowNetwork::set_capacity(std::uint32_t arc, std::uint64_t capacity) {
    arcs_[std::size_t{2} * arc].left = capacity;
    arcs_[std::size_t{2} * arc + 1].left = 0;
}

bool FlowNetwork::find_levels(std::uint32_t source, std::uint32_t sink) {
    level_.assign(arcs_of_.size(), unreached);
    queue_.assign(1, source);
    level_[source] = 0;
    for (std::size_t i = 0; i < queue_.size(); ++i) {
        for (const std::uint32_t number : arcs_of_[queue_[i]]) {
            const Arc& arc = arcs_[number];
            if (arc.left == 0 || level_[arc.to] != unreached) continue;
            level_[arc.to] = level_[queue_[i]] + 1;
            queue_.push_back(arc.to);
        }
    }
    return level_[sink] != unreached;
}

// As deep as the network has levels; ours have four, or a few more on the way back through reverse arcs.
// NOLINTNEXTLINE(misc-no-recursion)
std::uint64_t FlowNetwork::push(std::uint32_t node, std::uint32_t sink, std::uint64_t most) {
    if (node == sink) return most;
    std::uint64_t pushed = 0;
    for (std::uint32_t& i = next_[node]; i < arcs_of_[node].size(); ++i) {
        const std::uint32_t number = arcs_of_[node][i];
        Arc& arc = arcs_[number];
        if (arc.left == 0 || level_[arc.to] != level_[node] + 1) continue;
        const std::uint64_t part = push(arc.to, sink, std::min(most - pushed, arc.left));
        arc.left -= part;
        arcs_[number ^ 1U].left += part;
        pushed += part;
        if (pushed == most) return pushed;  // this arc may carry more: do not step past it
    }
    return pushed;
}

std::uint64_t FlowNetwork::maximise(std::uint32_t source, std::uint32_t sink) {
    std::uint64_t total = 0;
    while (find_levels(source, sink)) {
        next_.assign(arcs_of_.size(), 0);
        total += push(source, sink, std::numeric_limits<std::uint64_t>::max());
    }
    return total;
}

}  // namespace chaos::plan
