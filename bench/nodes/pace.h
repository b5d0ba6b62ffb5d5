// When a node applied which step, from its journal: how fast it went, and how long it stood still.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace chaos::bench {

struct StepTime {
    std::uint64_t applied = 0;  // steps in the state then
    double time = 0.0;          // seconds since 1970
    double loss = 0.0;
};

// Of all its lives, in order.
[[nodiscard]] Result<std::vector<StepTime>> step_times(const std::filesystem::path& dir);

struct Pace {
    double step_s = 0.0;     // p50 between two steps
    double longest_s = 0.0;  // between two steps, the last of which falls into the time
    std::uint64_t steps = 0;
};

// Between two times. Steps that a joiner follows count like any others.
[[nodiscard]] Pace pace_between(const std::vector<StepTime>& steps, double from, double to);

}  // namespace chaos::bench
