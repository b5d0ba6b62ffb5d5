#include "hosts.h"

#include <filesystem>

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

}  // namespace chaos::bench
