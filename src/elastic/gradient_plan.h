// How gradients are summed under a view. A pure function, so that every member, and whoever computes the run again, has
// the same plan.
#pragma once

#include "base/result.h"
#include "cluster/view.h"
#include "collective/schedule.h"
#include "plan/sync_plan.h"

#include <cstddef>
#include <vector>

namespace chaos::elastic {

// R(s): a gradient, whose values come about from the back to the front, and behind it what is known in the end.
struct ResultShape {
    std::size_t gradient = 0;
    std::size_t rest = 0;
    [[nodiscard]] std::size_t floats() const { return gradient + rest; }
};

struct GradientPlan {
    std::vector<cluster::NodeId> members;  // whom the plan's indexes mean
    plan::SyncPlan plan;
    collective::ScheduleOptions options;  // its parts are buckets of the gradient, the last ones first; then the rest
};

// Refuses in words a view under which there is no way, or whose planner is another than this program's.
[[nodiscard]] Result<GradientPlan> gradient_plan_of(const cluster::View& view, const ResultShape& result);

}  // namespace chaos::elastic
