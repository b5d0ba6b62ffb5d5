// One seed, one run.
#pragma once

#include "base/result.h"
#include "sim/scenario.h"
#include "sim/world.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace chaos::sim {

struct Outcome {
    std::uint64_t seed = 0;
    std::string scenario;
    Host nodes = 0;
    bool strict = false;
    std::optional<std::string> failure;
    Statistics statistics;
};

[[nodiscard]] Outcome run(const Setup& setup, const Watching& watching);
// The same, in a world that is still there afterwards.
[[nodiscard]] Outcome run(World& world, const Setup& setup);

// Leaves out faults as long as the run still fails; at most `tries` runs. The setup that is left, with its failure.
[[nodiscard]] Setup shrink(const Setup& failing, std::size_t tries);

}  // namespace chaos::sim
