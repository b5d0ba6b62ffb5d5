#include "hosts.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace chaos::bench {

Result<testbed::Process> spawn_part(const testbed::Testbed& box, const std::string& host,
                                    const std::vector<std::string>& arguments) {
    std::vector<std::string> all{std::filesystem::read_symlink("/proc/self/exe").string(), "--part"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return box.spawn(host, all);
}

Result<std::string> output_of(testbed::Process& process) {
    if (process.wait() != 0) return Error{"a process in the testbed failed: " + process.out() + process.err()};
    return process.out();
}

MachineUse::Ticks MachineUse::now() {
    std::ifstream file("/proc/stat");
    std::string word;
    file >> word;
    Ticks ticks;
    double value = 0.0;
    for (int i = 0; i < 8 && file >> value; ++i) {
        ticks.all += value;
        if (i != 3 && i != 4) ticks.busy += value;  // idle, waiting for disks
    }
    return ticks;
}

double MachineUse::share() const {
    const Ticks after = now();
    return after.all > before_.all ? (after.busy - before_.busy) / (after.all - before_.all) : 0.0;
}

}  // namespace chaos::bench
