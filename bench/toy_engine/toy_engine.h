// A compute engine without LibTorch, for tests and benches: state, data, shares, results and updates are the real ones,
// but the model is a made-up function of parameters and sample numbers, of any size, that takes as long as it is told
// to. Its gradients are ordinary floats, so that sums in another order give other bits.
#pragma once

#include "compute/engine.h"
#include "elastic/trainer.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace chaos::toy {

struct ToyModel {
    std::uint64_t parameters = 10'000;
    std::uint64_t buffers = 8;
    std::chrono::microseconds per_sample{0};  // that it takes to compute
    // Called by the compute thread before each part of a gradient; tests wait in it.
    std::function<void()> before = [] {};
    std::function<std::chrono::microseconds()> pace = {};  // instead of per_sample, where that changes
};

[[nodiscard]] elastic::Trainer::MakeEngine make_toy_engine(const ToyModel& model);

// A run for it: `batch` samples a step of a data set that is made up.
[[nodiscard]] run::Run toy_run(std::int64_t steps, std::int64_t batch);

}  // namespace chaos::toy
