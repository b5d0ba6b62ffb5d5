// What an all-reduce gives, computed in one place from the contributions of all members: the very bits that the engine
// gives, because sums of floats depend on their order and this is the same one (all_reduce.h). For those who compute a
// run again without a network.
#pragma once

#include "base/result.h"
#include "collective/schedule.h"
#include "plan/sync_plan.h"

#include <cstdint>
#include <span>
#include <vector>

namespace chaos::collective {

// Worked out once per plan.
struct SumOrder {
    struct Addition {
        std::uint32_t into = 0;  // indexes of members
        std::uint32_t from = 0;
    };
    struct Tree {
        std::vector<Range> ranges;
        std::uint32_t root = 0;
        std::vector<Addition> additions;  // one after the other
    };
    std::vector<Tree> trees;
    std::uint64_t floats = 0;
    std::size_t members = 0;
};

// `members` are the nodes that the plan's indexes mean. Refuses in words a plan that makes no sense, and encodings
// other than fp32: what they round off goes into later steps, which one step does not know.
[[nodiscard]] Result<SumOrder> sum_order_of(const plan::SyncPlan& plan, std::span<const NodeId> members,
                                            const ScheduleOptions& options);

// `parts` are the members' contributions, in the order of `members`. They are used up: sums are made in them.
void sum_in_order(const SumOrder& order, std::span<std::vector<float>> parts, std::span<float> result);

}  // namespace chaos::collective
