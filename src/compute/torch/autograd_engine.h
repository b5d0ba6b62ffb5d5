// An engine over any network, with gradients by LibTorch's autograd. Nothing is copied between the model and the
// state: parameters are views into the arena, their gradients views into the result.
//
// Float buffers (BatchNorm's statistics) are part of the state, but a forward changes the buffers it runs on. So the
// model's buffers are views into a scratch copy: every run starts from the arena's, and what a training run made of
// them goes into the result, weighted like the gradient. Buffers of another type, and those with infinite values
// (masks), cannot be averaged: they are constants, and a model that changes one is refused at its first step.
// BatchNorm's num_batches_tracked is the exception; it is put back before every run, so that a step depends on
// nothing but the state and its samples.
#pragma once

#include "compute/engine.h"
#include "compute/torch/network.h"

namespace chaos::compute {

class AutogradEngine final : public Engine {
public:
    // Refuses, by name, parameters that are not float32.
    [[nodiscard]] static Result<std::unique_ptr<Engine>> make(Network network, const EngineOptions& options);

    [[nodiscard]] const state::Manifest& manifest() const override { return manifest_; }
    [[nodiscard]] state::Arena& arena() override { return arena_; }
    [[nodiscard]] std::span<float> result() override { return result_.span(); }

    [[nodiscard]] Result<Measure> forward_backward(const data::Batch& batch, const Part& part) override;
    [[nodiscard]] Result<Measure> evaluate(const data::Batch& batch) override;
    [[nodiscard]] Result<std::vector<float>> outputs(const data::Batch& batch) override;

private:
    AutogradEngine(Network network, const EngineOptions& options, state::Manifest manifest);

    void adopt_parameters();
    void watch_gradients();
    void gradient_done(std::size_t parameter);
    void adopt_buffers();
    [[nodiscard]] Call make_call(const data::Batch& batch) const;
    void restore_buffers();
    void settle();
    [[nodiscard]] Result<void> check_constants();

    Network network_;
    data::SampleShape sample_;
    std::uint64_t seed_;
    int threads_;
    state::Manifest manifest_;
    state::Arena arena_;
    state::Floats result_;
    std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;  // tell when a gradient is there
    std::vector<bool> awaited_;               // parameters whose gradient this backward pass has not made yet
    std::function<void(std::size_t)> ready_;  // of the part that is being computed
    torch::Tensor scratch_;                   // what the model's float buffers are views into

    struct Constant {
        NamedTensor buffer;
        torch::Tensor initial;
        bool counter;  // num_batches_tracked
    };
    std::vector<Constant> constants_;
    bool constants_checked_ = false;
};

}  // namespace chaos::compute
