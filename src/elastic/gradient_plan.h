// How gradients are summed under a view. A pure function, so that every member, and whoever computes the run again, has
// the same plan.
#pragma once

#include "base/result.h"
#include "cluster/view.h"
#include "plan/sync_plan.h"

#include <cstddef>
#include <vector>

namespace chaos::elastic {

struct GradientPlan {
    plan::SyncRequest request;
    std::vector<cluster::NodeId> members;  // whom the plan's indexes mean
    plan::SyncPlan plan;
};

// Refuses in words a view under which there is no way, or whose planner is another than this program's.
[[nodiscard]] Result<GradientPlan> gradient_plan_of(const cluster::View& view, std::size_t result_floats);

}  // namespace chaos::elastic
