// The rival of `chaos train`: the training loop that a user of LibTorch writes without Chaos, from torch::nn modules,
// autograd and torch::optim. This header knows no LibTorch; the loop itself is a library that plain_library.h loads.
#pragma once

#include "data/batch.h"
#include "run/run.h"
#include "state/manifest.h"

#include <span>

namespace chaos::bench {

class PlainLoop {
public:
    virtual ~PlainLoop() = default;

    // Copies every parameter from its place in `values`. False where the model's parameters have other names or
    // shapes than the manifest's.
    [[nodiscard]] virtual bool set_parameters(const state::Manifest& manifest, std::span<const float> values) = 0;

    // Forward, backward, update. Returns the loss before the update.
    [[nodiscard]] virtual double step(const data::Batch& batch) = 0;
};

inline constexpr const char* make_plain_loop_entry = "chaos_bench_make_plain_loop";

// The loop for a run whose every default is resolved; the caller owns it. Null where there is none for the run's
// model. What LibTorch throws is not caught: it is a mistake in the benchmark.
extern "C" PlainLoop* chaos_bench_make_plain_loop(const run::Run& run);

using MakePlainLoopEntry = decltype(chaos_bench_make_plain_loop);

}  // namespace chaos::bench
