#include "start.h"

#include "machine.h"
#include "synthetic_model.h"
#include "temporary_folder.h"
#include "testbed/process.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace chaos::bench {
namespace {

Result<double> seconds_to_first_token(const std::filesystem::path& model) {
    const double start = seconds_now();
    CHAOS_TRY(auto process, testbed::Process::start({CHAOS_PROGRAM, "generate", model.string(), "--prompt", "Hello,",
                                                     "--max-tokens", "1", "--ignore-eos"}));
    double taken = 0.0;
    while (taken == 0.0) {
        const bool last = process.ended();
        if (!process.out().empty())
            taken = seconds_now() - start;
        else if (last)
            return Error{"chaos generate printed nothing: " + process.err()};
        else
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (process.wait() != 0) return Error{"chaos generate failed: " + process.err()};
    return taken;
}

}  // namespace

Result<void> measure_start(bool quick, Findings& findings) {
    const test::TemporaryFolder folder;
    const std::filesystem::path model = folder.path() / "model.gguf";
    CHAOS_CHECK(write_synthetic_model(model, {.tokenizer = true}));
    CHAOS_CHECK(seconds_to_first_token(model));  // from now on the file is in the cache
    std::vector<double> seconds;
    for (int round = 0; round < (quick ? 3 : 7); ++round) {
        CHAOS_TRY(const double taken, seconds_to_first_token(model));
        seconds.push_back(taken);
    }
    findings.add("start_to_first_token_s", median(seconds), 3, "< 1.5");
    return {};
}

}  // namespace chaos::bench
