// What nodes learnt together beside what one process learns of the same run undisturbed.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace chaos::bench {

// Of the first steps of a run that one process trains in `dir`.
[[nodiscard]] Result<std::vector<double>> losses_alone(const std::filesystem::path& run_file,
                                                       const std::filesystem::path& dir, std::uint64_t steps);

// Of all steps that led to the state with which the journal in the first folder ends: what was undone does not count.
[[nodiscard]] Result<std::vector<double>> losses_together(const std::vector<std::filesystem::path>& dirs);

// The largest relative difference of one step.
[[nodiscard]] double largest_gap(std::span<const double> alone, std::span<const double> together);

}  // namespace chaos::bench
