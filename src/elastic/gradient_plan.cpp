#include "elastic/gradient_plan.h"

#include "plan/view_request.h"

#include <algorithm>
#include <cstring>

namespace chaos::elastic {
namespace {

using collective::Range;

std::uint64_t some_bits_of(const cluster::Name& name) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, name.data(), sizeof bits);
    return bits;
}

// Many, so that little is left to be sent when the last values come about; but long enough that each keeps all trees
// busy.
std::vector<Range> parts_of(const ResultShape& result, const plan::SyncRequest& request, std::size_t trees) {
    constexpr std::size_t most = 32;
    constexpr std::size_t least_bytes = 256U << 10;
    const std::size_t bucket_bytes = std::max<std::size_t>(least_bytes, 2 * trees * request.chunk_bytes);
    const std::size_t buckets = std::min(most, result.gradient * sizeof(float) / bucket_bytes);
    if (buckets < 2) return {};
    std::vector<Range> parts;
    for (std::size_t i = buckets; i-- > 0;) {
        const std::size_t first = result.gradient * i / buckets;
        parts.push_back({first, result.gradient * (i + 1) / buckets - first});
    }
    if (result.rest > 0) parts.push_back({result.gradient, result.rest});
    return parts;
}

}  // namespace

Result<GradientPlan> gradient_plan_of(const cluster::View& view, const ResultShape& result) {
    if (view.planner != cluster::planner_version)
        return Error{"view " + cluster::brief(view.name) + " is of planner version " + std::to_string(view.planner) +
                     ", this program plans by version " + std::to_string(cluster::planner_version)};
    auto [request, members] = plan::sync_request_of(view, result.floats() * sizeof(float));
    request.chunk_bytes = collective::fit_chunk_bytes(request);
    Result<plan::SyncPlan> plan = plan::plan_sync(request);
    if (!plan)
        return Error{"there is no way to sum gradients under view " + cluster::brief(view.name) + ": " +
                     plan.error().message};
    collective::ScheduleOptions options{.view = some_bits_of(view.name),
                                        .encoding = collective::Encoding::fp32,
                                        .chunk_bytes = static_cast<std::uint32_t>(request.chunk_bytes),
                                        .window_chunks = collective::fit_window_chunks(request, *plan),
                                        .parts = parts_of(result, request, plan->trees.size())};
    return GradientPlan{.members = std::move(members), .plan = std::move(*plan), .options = std::move(options)};
}

}  // namespace chaos::elastic
