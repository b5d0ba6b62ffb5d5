#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

namespace chaos {
namespace {

// The quota of this process's control group in cores; 0: none. Both generations of control groups.
double quota_of(const std::filesystem::path& groups, const std::filesystem::path& own) {
    std::string quota;
    double period = 0.0;
    if (std::ifstream(groups / own / "cpu.max") >> quota >> period && quota != "max") return std::stod(quota) / period;
    double microseconds = 0.0;
    if (std::ifstream(groups / "cpu" / own / "cpu.cfs_quota_us") >> microseconds && microseconds > 0.0 &&
        std::ifstream(groups / "cpu" / own / "cpu.cfs_period_us") >> period && period > 0.0)
        return microseconds / period;
    return 0.0;
}

// What a line of /proc/self/cgroup says: number:controllers:path.
struct Group {
    std::string controllers;  // none: the second generation
    std::filesystem::path path;
    [[nodiscard]] bool controls(const std::string& what) const {
        return controllers.empty() || ("," + controllers + ",").find("," + what + ",") != std::string::npos;
    }
};

std::vector<Group> groups_in(std::istream& lines) {
    std::vector<Group> groups;
    for (std::string line; std::getline(lines, line);) {
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        groups.push_back({line.substr(first + 1, second - first - 1),
                          std::filesystem::path(line.substr(second + 1)).relative_path()});
    }
    return groups;
}

// No limit is "max", or more than any machine has.
std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
    std::uint64_t number = 0;
    if (std::ifstream(file) >> number) return number;
    return {};
}

std::uint64_t statistic(const std::filesystem::path& file, const std::string& name) {
    std::ifstream lines(file);
    std::string word;
    std::uint64_t number = 0;
    while (lines >> word >> number)
        if (word == name) return number;
    return 0;
}

// Of one control group, in either generation.
std::optional<std::uint64_t> memory_left(const std::filesystem::path& group) {
    auto limit = number_in(group / "memory.max");
    auto used = number_in(group / "memory.current");
    std::string makes_way = "inactive_file";
    if (!limit) {
        limit = number_in(group / "memory.limit_in_bytes");
        used = number_in(group / "memory.usage_in_bytes");
        makes_way = "total_inactive_file";
    }
    if (!limit || !used) return {};
    const std::uint64_t taken = *used - std::min(*used, statistic(group / "memory.stat", makes_way));
    return *limit - std::min(*limit, taken);
}

}  // namespace

double cores_of_this_process() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    double cores = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1.0;
    std::ifstream own("/proc/self/cgroup");
    for (const Group& group : groups_in(own)) {
        if (!group.controls("cpu")) continue;
        const double quota = quota_of("/sys/fs/cgroup", group.path);
        if (quota > 0.0) cores = std::min(cores, quota);
    }
    return cores;
}

std::size_t threads_for_all_cores() {
    return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(cores_of_this_process())));
}

std::optional<std::uint64_t> memory_left_by_groups(std::istream& own_groups, const std::filesystem::path& groups) {
    std::optional<std::uint64_t> least;
    for (const Group& group : groups_in(own_groups)) {
        if (!group.controls("memory")) continue;
        const std::filesystem::path top = group.controllers.empty() ? groups : groups / "memory";
        // A group has no more than those above it. In a container, paths may be those of the machine: then only the
        // top is there.
        for (std::filesystem::path path = group.path;; path = path.parent_path()) {
            const auto left = memory_left(top / path);
            if (left) least = std::min(least.value_or(*left), *left);
            if (path.empty()) break;
        }
    }
    return least;
}

std::optional<std::uint64_t> memory_left_by_groups() {
    std::ifstream own("/proc/self/cgroup");
    return memory_left_by_groups(own, "/sys/fs/cgroup");
}

}  // namespace chaos
