// The layers our image models are built from. A layer is a function; building it adds its tensors, named as
// torchvision names them, to the model's list and fills them with initial values.
//
// Initial values are pure functions of (seed, index of the parameter, index of the element), scaled in double
// precision, so that every machine starts from the same bits.
#pragma once

#include "compute/torch/network.h"

namespace chaos::compute {

using Layer = std::function<torch::Tensor(torch::Tensor, const Call&)>;

// A model's tensors while it is being built.
struct Tensors {
    std::uint64_t seed = 1;
    std::vector<NamedTensor> parameters;
    std::vector<NamedTensor> buffers;
};

enum class Norm { group, batch };

struct Convolution {
    std::int64_t in = 0;
    std::int64_t out = 0;
    std::int64_t kernel = 3;
    std::int64_t stride = 1;
    std::int64_t padding = 0;
    bool bias = false;
};

// Weights are normal with variance 2 / fan-out (He), the bias is 0.
[[nodiscard]] Layer convolution(Tensors& tensors, const std::string& name, const Convolution& shape);
// Weights and bias are uniform within 1 / sqrt(fan-in) of 0.
[[nodiscard]] Layer linear(Tensors& tensors, const std::string& name, std::int64_t in, std::int64_t out);
// Group: 32 groups, or the largest number below that divides the channels.
[[nodiscard]] Layer norm(Tensors& tensors, const std::string& name, std::int64_t channels, Norm kind);

// With ceil, the window may reach over the edge: an input of odd extent, even of extent 1, loses nothing.
struct Pool {
    std::int64_t kernel = 2;
    std::int64_t stride = 2;
    std::int64_t padding = 0;
    bool ceil = false;
};
[[nodiscard]] Layer max_pool(const Pool& pool);
// Averages any image down (or repeats it up) to extent x extent.
[[nodiscard]] Layer average_pool(std::int64_t extent);

[[nodiscard]] Layer relu();
[[nodiscard]] Layer flatten();

// Which elements are dropped depends on (seed, step, `number` of the layer, sample, element) only and not on how a
// batch is divided among parts or members.
[[nodiscard]] Layer dropout(double probability, std::uint64_t number);

[[nodiscard]] Layer chain(std::vector<Layer> layers);

}  // namespace chaos::compute
