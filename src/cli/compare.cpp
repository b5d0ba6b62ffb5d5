#include "base/file.h"
#include "cli/commands.h"
#include "sim/comparison.h"

#include <cstdio>

namespace chaos::cli {

Result<void> compare_scale_out(const CompareOptions& options) {
    if (options.last_seed <= options.first_seed)
        return Error{"--seeds A..B needs A < B: it compares on the seeds A to B - 1"};
    const sim::Comparison comparison = sim::compare(options.first_seed, options.last_seed);
    std::fputs(
        "Simulated; medians over six models and the seeds; a / b: without / with a donor failing in mid-transfer.\n",
        stdout);
    std::fputs(sim::summary_of(comparison).c_str(), stdout);
    if (options.markdown.empty()) return {};
    CHAOS_CHECK(write_file_atomically(options.markdown, sim::page_of(comparison)));
    std::printf("\nwrote %s\n", options.markdown.c_str());
    return {};
}

}  // namespace chaos::cli
