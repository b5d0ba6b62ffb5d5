#include "collective/sum_in_order.h"

#include "base/assert.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

namespace chaos::collective {
namespace {

// Everybody's distance from the root.
std::vector<std::uint32_t> depths_of(const std::vector<std::uint32_t>& parent) {
    std::vector<std::uint32_t> depths(parent.size());
    for (std::uint32_t member = 0; member < parent.size(); ++member)
        for (std::uint32_t at = member; parent[at] != at; at = parent[at]) ++depths[member];
    return depths;
}

}  // namespace

Result<SumOrder> sum_order_of(const plan::SyncPlan& plan, std::span<const NodeId> members,
                              const ScheduleOptions& options) {
    if (options.encoding != Encoding::fp32)
        return Error{std::string("gradients that travel as ") + name_of(options.encoding) +
                     " cannot be summed again: what was rounded off is not known"};
    // The members' own schedules say who adds whose sums, and in which order.
    std::vector<Schedule> schedules;
    std::map<NodeId, std::uint32_t> index;
    for (const NodeId member : members) {
        CHAOS_TRY(Schedule schedule, make_schedule(plan, members, member, options));
        index.emplace(member, static_cast<std::uint32_t>(schedules.size()));
        schedules.push_back(std::move(schedule));
    }
    SumOrder order;
    order.members = members.size();
    for (std::size_t i = 0; i < plan.trees.size(); ++i) {
        const std::vector<std::uint32_t> depths = depths_of(plan.trees[i].parent);
        std::vector<std::uint32_t> from_below(members.size());
        std::iota(from_below.begin(), from_below.end(), 0U);
        std::ranges::sort(from_below, [&](std::uint32_t x, std::uint32_t y) {
            return depths[x] != depths[y] ? depths[x] > depths[y] : x < y;
        });
        SumOrder::Tree& tree = order.trees.emplace_back();
        for (const std::uint32_t member : from_below) {
            const Branch& branch = schedules[member].branches[i];
            if (!branch.parent) tree.root = member;
            for (const NodeId child : branch.children)
                tree.additions.push_back({.into = member, .from = index.at(child)});
        }
        for (const Piece& piece : schedules.front().branches[i].pieces) {
            tree.ranges.push_back(piece.floats);
            order.floats += piece.floats.count;
        }
    }
    return order;
}

void sum_in_order(const SumOrder& order, std::span<std::vector<float>> parts, std::span<float> result) {
    CHAOS_ASSERT(parts.size() == order.members && result.size() == order.floats);
    CHAOS_ASSERT(std::ranges::all_of(parts, [&](const auto& part) { return part.size() == order.floats; }));
    for (const SumOrder::Tree& tree : order.trees) {
        for (const Range& range : tree.ranges) {
            const auto part_of = [&](std::uint32_t member) {
                return std::span(parts[member]).subspan(range.first, range.count);
            };
            for (const auto [into, from] : tree.additions)
                add_decoded(Encoding::fp32, part_of(into), std::as_bytes(part_of(from)), part_of(into));
            std::ranges::copy(part_of(tree.root), result.begin() + static_cast<std::ptrdiff_t>(range.first));
        }
    }
}

}  // namespace chaos::collective
