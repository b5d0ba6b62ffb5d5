#include "nodes/pace.h"

#include "elastic/journal.h"
#include "report.h"

#include <algorithm>

namespace chaos::bench {

Result<std::vector<StepTime>> step_times(const std::filesystem::path& dir) {
    std::vector<StepTime> steps;
    const auto keep = [&](const elastic::journal::TimedEntry& entry) -> Result<void> {
        if (const auto* applied = std::get_if<elastic::journal::Applied>(&entry.entry))
            steps.push_back({.applied = applied->record.step + 1,
                             .time = static_cast<double>(entry.time_ns) / 1e9,
                             .loss = applied->record.loss});
        return {};
    };
    CHAOS_CHECK(elastic::read_journal(dir / "journal", keep));
    return steps;
}

Pace pace_between(const std::vector<StepTime>& steps, double from, double to) {
    std::vector<double> gaps;
    for (std::size_t i = 1; i < steps.size(); ++i)
        if (steps[i].time >= from && steps[i].time <= to) gaps.push_back(steps[i].time - steps[i - 1].time);
    if (gaps.empty()) return {};
    return {.step_s = median(gaps), .longest_s = *std::ranges::max_element(gaps), .steps = gaps.size()};
}

}  // namespace chaos::bench
