// Many seeds on all cores, one thread per run.
#pragma once

#include "sim/run.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace chaos::sim {

struct Sums {
    std::uint64_t runs = 0;
    std::uint64_t steps = 0;
    std::uint64_t views = 0;
    std::uint64_t forks = 0;
    std::uint64_t foundings = 0;
    std::uint64_t messages = 0;
    std::uint64_t stopped_rightly = 0;
    Time simulated = 0;
    // Of each run that did not fail or stop: times after the last fault, and their ratio to what I3 allows.
    std::vector<Time> resumed;
    std::vector<Time> recovered;
    double worst_resumed = 0;
    double worst_recovered = 0;
};

struct SweepResult {
    Sums sums;
    std::uint64_t failures = 0;
    std::optional<Outcome> first;  // failure: the one with the smallest seed
};

struct SweepSettings {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;                                              // one past the last seed
    bool keep_going = false;                                            // after a failure, to count all of them
    std::function<void(const Sums&, std::uint64_t failures)> progress;  // now and then, from one thread at a time
    std::function<void(const Outcome&)> failed;                         // likewise, for each failure
    std::function<void()> prepare_thread;
};

// Seeds below the first failing one are all run, so the failure reported is the same whatever the number of cores.
[[nodiscard]] Result<SweepResult> sweep(const SweepSettings& settings, const Wishes& wishes);

}  // namespace chaos::sim
