#include "compute/torch/layers.h"

#include "base/random.h"

namespace chaos::compute {

namespace {

constexpr std::int64_t values_per_task = 1 << 14;
constexpr double norm_epsilon = 1e-5;
constexpr double batch_norm_momentum = 0.1;
constexpr std::int64_t max_norm_groups = 32;

// `value` gives each element from (seed, stream, index).
template <class Value>
torch::Tensor add_parameter(Tensors& tensors, const std::string& name, torch::IntArrayRef shape, Value value) {
    torch::Tensor parameter = torch::empty(shape);
    float* data = parameter.data_ptr<float>();
    const std::uint64_t stream = tensors.parameters.size();
    at::parallel_for(0, parameter.numel(), values_per_task, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) data[i] = value(tensors.seed, stream, static_cast<std::uint64_t>(i));
    });
    parameter.requires_grad_();
    tensors.parameters.push_back({name, parameter});
    return parameter;
}

torch::Tensor add_normal(Tensors& tensors, const std::string& name, torch::IntArrayRef shape, double deviation) {
    return add_parameter(tensors, name, shape, [=](std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
        return static_cast<float>(deviation * static_cast<double>(random_normal(seed, stream, index)));
    });
}

torch::Tensor add_uniform(Tensors& tensors, const std::string& name, torch::IntArrayRef shape, double bound) {
    return add_parameter(tensors, name, shape, [=](std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
        const auto unit = static_cast<double>(random_unit(random_bits(seed, stream, index)));
        return static_cast<float>(bound * (2.0 * unit - 1.0));
    });
}

torch::Tensor add_constant(Tensors& tensors, const std::string& name, torch::IntArrayRef shape, float value) {
    return add_parameter(tensors, name, shape, [=](auto, auto, auto) { return value; });
}

torch::Tensor add_buffer(Tensors& tensors, const std::string& name, std::int64_t extent, float value) {
    return tensors.buffers.emplace_back(NamedTensor{name, torch::full({extent}, value)}).tensor;
}

// x times the weight, plus the bias. Autograd would compute the weight's gradient into new memory and then add it to
// what is there; for large layers that costs as much as the product itself. This adds the product to it.
struct Linear : torch::autograd::Function<Linear> {
    static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                                 const torch::Tensor& weight, const torch::Tensor& bias) {
        context->save_for_backward({x});
        context->saved_data["weight"] = weight;
        return torch::addmm(bias, x, weight.t());
    }

    static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::tensor_list& gradients) {
        const torch::Tensor& gradient = gradients[0];
        const torch::Tensor x = context->get_saved_variables()[0];
        const torch::Tensor weight = context->saved_data["weight"].toTensor();
        torch::Tensor weight_gradient;
        if (weight.grad().defined()) {
            weight.mutable_grad().addmm_(gradient.t(), x);
        } else {
            weight_gradient = gradient.t().mm(x);
        }
        const auto x_gradient = context->needs_input_grad(0) ? gradient.mm(weight) : torch::Tensor();
        return {x_gradient, weight_gradient, gradient.sum(0)};
    }
};

std::int64_t norm_groups(std::int64_t channels) {
    std::int64_t groups = std::min(max_norm_groups, channels);
    while (channels % groups != 0) --groups;
    return groups;
}

// 0 where an element is dropped, 1 / (1 - probability) where it is kept.
torch::Tensor dropout_mask(const torch::Tensor& input, const Call& call, double probability, std::uint64_t number) {
    torch::Tensor mask = torch::empty(input.sizes());
    const std::int64_t count = input.size(0);
    const std::int64_t elements = input.numel() / count;
    const std::uint64_t layer_seed = random_bits(call.seed, call.step, number);
    const auto threshold = static_cast<float>(probability);
    const auto kept = static_cast<float>(1.0 / (1.0 - probability));
    float* data = mask.data_ptr<float>();
    at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t sample = begin; sample < end; ++sample) {
            const std::uint64_t stream = call.samples[static_cast<std::size_t>(sample)];
            float* row = data + sample * elements;
            for (std::int64_t i = 0; i < elements; ++i) {
                const float unit = random_unit(random_bits(layer_seed, stream, static_cast<std::uint64_t>(i)));
                row[i] = unit >= threshold ? kept : 0.0F;
            }
        }
    });
    return mask;
}

}  // namespace

Layer convolution(Tensors& tensors, const std::string& name, const Convolution& shape) {
    const double fan_out = static_cast<double>(shape.out * shape.kernel * shape.kernel);
    const auto weight = add_normal(tensors, name + ".weight", {shape.out, shape.in, shape.kernel, shape.kernel},
                                   std::sqrt(2.0 / fan_out));
    const auto bias = shape.bias ? add_constant(tensors, name + ".bias", {shape.out}, 0.0F) : torch::Tensor();
    return [=](torch::Tensor x, const Call&) { return torch::conv2d(x, weight, bias, shape.stride, shape.padding); };
}

Layer linear(Tensors& tensors, const std::string& name, std::int64_t in, std::int64_t out) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(in));
    const auto weight = add_uniform(tensors, name + ".weight", {out, in}, bound);
    const auto bias = add_uniform(tensors, name + ".bias", {out}, bound);
    return [=](torch::Tensor x, const Call&) { return Linear::apply(x, weight, bias); };
}

Layer norm(Tensors& tensors, const std::string& name, std::int64_t channels, Norm kind) {
    const auto weight = add_constant(tensors, name + ".weight", {channels}, 1.0F);
    const auto bias = add_constant(tensors, name + ".bias", {channels}, 0.0F);
    if (kind == Norm::group) {
        const std::int64_t groups = norm_groups(channels);
        return [=](torch::Tensor x, const Call&) { return torch::group_norm(x, groups, weight, bias, norm_epsilon); };
    }
    const auto mean = add_buffer(tensors, name + ".running_mean", channels, 0.0F);
    const auto variance = add_buffer(tensors, name + ".running_var", channels, 1.0F);
    return [=](torch::Tensor x, const Call& call) {
        return torch::batch_norm(x, weight, bias, mean, variance, call.training, batch_norm_momentum, norm_epsilon,
                                 at::globalContext().userEnabledCuDNN());
    };
}

Layer max_pool(const Pool& pool) {
    return [=](torch::Tensor x, const Call&) {
        return torch::max_pool2d(x, pool.kernel, pool.stride, pool.padding, /*dilation=*/1, pool.ceil);
    };
}

Layer average_pool(std::int64_t extent) {
    return [=](torch::Tensor x, const Call&) { return torch::adaptive_avg_pool2d(x, {extent, extent}); };
}

Layer relu() {
    // In place: no layer in front of one needs its own output for its gradient.
    return [](torch::Tensor x, const Call&) { return x.relu_(); };
}

Layer flatten() {
    return [](torch::Tensor x, const Call&) { return x.flatten(1); };
}

Layer dropout(double probability, std::uint64_t number) {
    return [=](torch::Tensor x, const Call& call) {
        if (!call.training || probability == 0.0) return x;
        return x * dropout_mask(x, call, probability, number);
    };
}

Layer chain(std::vector<Layer> layers) {
    return [layers = std::move(layers)](torch::Tensor x, const Call& call) {
        for (const Layer& layer : layers) x = layer(std::move(x), call);
        return x;
    };
}

}  // namespace chaos::compute
