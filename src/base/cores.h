// How much of the machine this process may use: what its affinity and its control groups leave it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

namespace chaos {

// Cores, by its affinity and the quota of its control group, which need not be a whole number.
[[nodiscard]] double cores_of_this_process();
// As many threads as it takes to use them all.
[[nodiscard]] std::size_t threads_for_all_cores();

// Memory that the process's control group, and those above it, let it have beside what they have; none: no limit. What
// they have of files counts as free where it was not used lately: it makes way.
[[nodiscard]] std::optional<std::uint64_t> memory_left_by_groups();
// The same of the groups of /proc/self/cgroup, where their file systems lie under `groups`.
[[nodiscard]] std::optional<std::uint64_t> memory_left_by_groups(std::istream& own_groups,
                                                                 const std::filesystem::path& groups);

}  // namespace chaos
