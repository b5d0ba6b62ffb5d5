#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace chaos {
namespace {

// The quota of this process's control group in cores; 0: none. Both generations of control groups.
double quota_of(const std::filesystem::path& groups, const std::string& own) {
    std::string quota;
    double period = 0.0;
    if (std::ifstream(groups / own / "cpu.max") >> quota >> period && quota != "max") return std::stod(quota) / period;
    double microseconds = 0.0;
    if (std::ifstream(groups / "cpu" / own / "cpu.cfs_quota_us") >> microseconds && microseconds > 0.0 &&
        std::ifstream(groups / "cpu" / own / "cpu.cfs_period_us") >> period && period > 0.0)
        return microseconds / period;
    return 0.0;
}

}  // namespace

double cores_of_this_process() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    double cores = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1.0;
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
        // number:controllers:path
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        if (!controllers.empty() && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
        const double quota = quota_of("/sys/fs/cgroup", line.substr(second + 2));
        if (quota > 0.0) cores = std::min(cores, quota);
    }
    return cores;
}

}  // namespace chaos
