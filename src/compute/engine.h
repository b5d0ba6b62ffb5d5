// compute/ computes losses and gradients. This header is all that the rest of Chaos sees of it and knows no LibTorch;
// the engine itself is a plugin (libchaos_torch.so), loaded by compute/plugin.h when a command trains, and the only
// code of the project that includes LibTorch's headers.
//
// An engine owns the memory of the state and of a step's result and exposes both as spans: update rules, checkpoints,
// replication and export work on those. One thread calls an engine.
#pragma once

#include "base/result.h"
#include "data/batch.h"
#include "run/run.h"
#include "state/arena.h"
#include "state/manifest.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace chaos::compute {

struct EngineOptions {
    run::Model model;  // with every default resolved (vocab, kv_heads, classes, ...)
    data::SampleShape sample;
    std::uint64_t seed = 1;
    int threads = 1;
    unsigned slots = 2;  // moments the update rule needs
};

// A step's batch may be computed in parts; their weights sum to 1.
struct Part {
    std::uint64_t step = 0;  // seeds dropout, together with each sample's number
    float weight = 1.0F;
    bool first = true;
    // Told while the gradient is computed, as far as that is known: what the result holds from here on, up to the
    // gradient's end, is final. Each time less than before.
    std::function<void(std::size_t from)> ready = nullptr;
};

// What a batch showed. `loss` is the mean over targets.
struct Measure {
    double loss = 0.0;
    std::optional<std::uint64_t> correct;  // targets whose largest output was right; unset where that has no meaning
    std::uint64_t targets = 0;
};

class Engine {
public:
    virtual ~Engine() = default;

    [[nodiscard]] virtual const state::Manifest& manifest() const = 0;
    // Parameters (initialised from the seed), slots (zero) and buffers.
    [[nodiscard]] virtual state::Arena& arena() = 0;
    // R(s): the gradient, then the buffers as the step leaves them.
    [[nodiscard]] virtual std::span<float> result() = 0;

    // Adds part.weight x (gradient of the batch's mean loss, buffers after the batch) to result(); the first part of
    // a step overwrites it instead. The arena is not changed.
    [[nodiscard]] virtual Result<Measure> forward_backward(const data::Batch& batch, const Part& part) = 0;
    // Without gradient, dropout or change of buffers.
    [[nodiscard]] virtual Result<Measure> evaluate(const data::Batch& batch) = 0;
    // The model's outputs (logits), count x ... x classes, row-major.
    [[nodiscard]] virtual Result<std::vector<float>> outputs(const data::Batch& batch) = 0;
};

}  // namespace chaos::compute
