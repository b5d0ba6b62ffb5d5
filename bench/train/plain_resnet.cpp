#include "plain_models.h"

#include <array>

namespace chaos::bench {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t groups = 32;

nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
    return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

nn::GroupNorm group_norm(std::int64_t channels) {
    return nn::GroupNorm(nn::GroupNormOptions(groups, channels));
}

struct BlockImpl : nn::Module {
    BlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
        : conv1(register_module("conv1", convolution(in, out, 3, stride))),
          norm1(register_module("bn1", group_norm(out))),
          conv2(register_module("conv2", convolution(out, out, 3, 1))),
          norm2(register_module("bn2", group_norm(out))) {
        if (stride == 1 && in == out) return;
        shortcut = register_module("downsample", nn::Sequential(convolution(in, out, 1, stride), group_norm(out)));
    }

    torch::Tensor forward(const torch::Tensor& x) {
        torch::Tensor y = norm1(conv1(x)).relu_();
        y = norm2(conv2(y));
        y += shortcut.is_empty() ? x : shortcut->forward(x);
        return y.relu_();
    }

    nn::Conv2d conv1;
    nn::GroupNorm norm1;
    nn::Conv2d conv2;
    nn::GroupNorm norm2;
    nn::Sequential shortcut{nullptr};
};
TORCH_MODULE(Block);

// For small images: a 3x3 convolution of stride 1 in front and no pooling.
struct ResNetImpl : nn::Module {
    ResNetImpl(std::int64_t channels, std::int64_t classes)
        : conv1(register_module("conv1", convolution(channels, 64, 3, 1))),
          norm1(register_module("bn1", group_norm(64))),
          classifier(register_module("fc", nn::Linear(512, classes))) {
        std::int64_t in = 64;
        for (std::size_t i = 0; i < stages.size(); ++i) {
            const std::int64_t out = std::int64_t{64} << i;
            stages[i] = register_module("layer" + std::to_string(i + 1),
                                        nn::Sequential(Block(in, out, i == 0 ? 1 : 2), Block(out, out, 1)));
            in = out;
        }
    }

    torch::Tensor forward(const torch::Tensor& images) {
        torch::Tensor x = norm1(conv1(images)).relu_();
        for (nn::Sequential& stage : stages) x = stage->forward(x);
        return classifier(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
    }

    nn::Conv2d conv1;
    nn::GroupNorm norm1;
    std::array<nn::Sequential, 4> stages;
    nn::Linear classifier;
};
TORCH_MODULE(ResNet);

}  // namespace

PlainModel plain_resnet18(const run::Run& run) {
    const std::vector<std::int64_t> extents = run.data.shape;
    ResNet resnet(extents[0], run.model.classes);
    const auto loss = [resnet, extents](const data::Batch& batch) mutable {
        const torch::Tensor images = tensor_of(batch.values, {batch.count, extents[0], extents[1], extents[2]});
        return nn::functional::cross_entropy(resnet(images), tensor_of(batch.targets, {batch.count}));
    };
    return {resnet.ptr(), loss};
}

}  // namespace chaos::bench
