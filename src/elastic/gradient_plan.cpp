#include "elastic/gradient_plan.h"

#include "collective/schedule.h"
#include "plan/view_request.h"

namespace chaos::elastic {

Result<GradientPlan> gradient_plan_of(const cluster::View& view, std::size_t result_floats) {
    if (view.planner != cluster::planner_version)
        return Error{"view " + cluster::brief(view.name) + " is of planner version " + std::to_string(view.planner) +
                     ", this program plans by version " + std::to_string(cluster::planner_version)};
    auto [request, members] = plan::sync_request_of(view, result_floats * sizeof(float));
    request.chunk_bytes = collective::fit_chunk_bytes(request);
    Result<plan::SyncPlan> plan = plan::plan_sync(request);
    if (!plan)
        return Error{"there is no way to sum gradients under view " + cluster::brief(view.name) + ": " +
                     plan.error().message};
    return GradientPlan{.request = std::move(request), .members = std::move(members), .plan = std::move(*plan)};
}

}  // namespace chaos::elastic
