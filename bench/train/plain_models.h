// The models of the plain loop, in the form their authors publish them: llama as Hugging Face writes it, ResNet-18 as
// torchvision does. Modules carry the same names, so parameters can be copied by name.
#pragma once

#include "compute/torch/torch.h"

#include "data/batch.h"
#include "run/run.h"

namespace chaos::bench {

struct PlainModel {
    std::shared_ptr<torch::nn::Module> module;
    std::function<torch::Tensor(const data::Batch&)> loss;  // the mean over targets, with gradient
};

[[nodiscard]] PlainModel plain_llama(const run::Run& run);
[[nodiscard]] PlainModel plain_resnet18(const run::Run& run);

// A view of a batch's numbers. LibTorch knows no read-only tensors; nobody writes to it.
template <class Value>
[[nodiscard]] torch::Tensor tensor_of(const std::vector<Value>& values, torch::IntArrayRef shape) {
    return torch::from_blob(const_cast<Value*>(values.data()), shape, torch::CppTypeToScalarType<Value>::value);
}

}  // namespace chaos::bench
