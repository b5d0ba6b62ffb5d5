// Losses by the names a run file gives them (model.loss).
#pragma once

#include "base/result.h"
#include "compute/torch/torch.h"

namespace chaos::compute {

enum class Loss {
    cross_entropy,  // output: logits {..., classes}
    nll,            // output: log-probabilities {..., classes}
    mse,            // output: one value for each target
    module,         // output: the mean loss
};

[[nodiscard]] Result<Loss> find_loss(const std::string& name);

// Whether the output has one value per class, the largest of which is the model's answer.
[[nodiscard]] bool has_classes(Loss loss);

// The mean over all targets: a scalar.
[[nodiscard]] torch::Tensor mean_loss(Loss loss, const torch::Tensor& output, const torch::Tensor& target);

// Targets that the model's answer is equal to; nothing where the loss has no classes.
[[nodiscard]] std::optional<std::uint64_t> count_correct(Loss loss, const torch::Tensor& output,
                                                         const torch::Tensor& target);

}  // namespace chaos::compute
