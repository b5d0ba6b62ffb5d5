// A network is any model that autograd_engine.h can train: its tensors by name and a function that runs it.
#pragma once

#include "compute/torch/loss.h"
#include "compute/torch/torch.h"

namespace chaos::compute {

struct NamedTensor {
    std::string name;
    torch::Tensor tensor;
};

// One run of a network over some samples.
struct Call {
    torch::Tensor input;   // int64 {count, context} of tokens, or float {count, ...}
    torch::Tensor target;  // int64 {count} or {count, context}
    bool training = false;
    std::uint64_t seed = 0;
    std::uint64_t step = 0;
    std::span<const std::uint64_t> samples;  // each sample's number; with seed and step it seeds dropout
};

struct Network {
    std::vector<NamedTensor> parameters;  // in the model's order, holding their initial values
    std::vector<NamedTensor> buffers;     // every buffer, of any type; a training run updates them in place
    Loss loss = Loss::cross_entropy;
    // The model's output, or the mean loss itself where `loss` is Loss::module.
    std::function<torch::Tensor(const Call&)> forward;
    // Optional: puts what a run left elsewhere into `buffers`. Called before and after each run; after a training run
    // when its gradients are computed.
    std::function<void()> settle = nullptr;
};

}  // namespace chaos::compute
