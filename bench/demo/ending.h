// What must be true when the demo's story is told, from the nodes' journals.
#pragma once

#include "base/result.h"
#include "cluster/id.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace chaos::bench {

// The newest step of which all of these nodes wrote down their state's hash, and the hash. An error: they differ.
struct CommonHash {
    std::uint64_t applied = 0;
    cluster::Name root{};
};
[[nodiscard]] Result<CommonHash> common_hash(const std::vector<std::filesystem::path>& dirs);

// The losses of all steps that led to what the first of these nodes ended with, and of the same run in one process,
// undisturbed.
struct Losses {
    std::vector<double> alone;
    std::vector<double> together;
    double largest_gap = 0.0;  // relative, of one step
};
[[nodiscard]] Result<Losses> compare_losses(const std::filesystem::path& run_file, const std::filesystem::path& dir,
                                            const std::vector<std::filesystem::path>& nodes);

// Whether the invariants held, from all journals; violations as sentences.
[[nodiscard]] Result<std::vector<std::string>> violations(const std::vector<std::filesystem::path>& dirs);

}  // namespace chaos::bench
