// A page that shows what happened in a run: members over time, faults, stalls, steps. One HTML file that needs nothing
// else.
#pragma once

#include "base/result.h"
#include "sim/run.h"

#include <filesystem>
#include <string>

namespace chaos::sim {

// The run must have been watched with `timeline`.
[[nodiscard]] std::string report_page(const World& world, const Outcome& outcome);
[[nodiscard]] Result<void> write_report(const std::filesystem::path& path, const World& world, const Outcome& outcome);

}  // namespace chaos::sim
