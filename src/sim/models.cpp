#include "sim/models.h"

#include <array>
#include <numeric>
#include <span>

namespace chaos::sim {
namespace {

constexpr std::uint64_t bytes_per_element = 4;
constexpr std::uint64_t classes = 10;

class Layers {
public:
    void convolution(std::uint64_t in, std::uint64_t out, std::uint64_t side) { add(in * out * side * side); }
    void norm(std::uint64_t channels) {
        add(channels);
        add(channels);
    }
    void linear(std::uint64_t in, std::uint64_t out) {
        add(in * out);
        add(out);
    }
    void convolution_with_bias(std::uint64_t in, std::uint64_t out, std::uint64_t side) {
        convolution(in, out, side);
        add(out);
    }
    std::vector<std::uint64_t> variables;

private:
    void add(std::uint64_t elements) { variables.push_back(elements * bytes_per_element); }
};

// `widening` 1: two 3x3 convolutions per block; 4: the bottleneck of 1x1, 3x3, 1x1.
Model resnet(std::string_view name, std::array<int, 4> blocks, std::uint64_t widening) {
    Layers layers;
    layers.convolution(3, 64, 7);
    layers.norm(64);
    std::uint64_t in = 64;
    std::uint64_t width = 64;
    for (const int count : blocks) {
        const std::uint64_t out = width * widening;
        for (int block = 0; block < count; ++block) {
            if (widening == 1) {
                layers.convolution(in, width, 3);
                layers.norm(width);
                layers.convolution(width, width, 3);
                layers.norm(width);
            } else {
                layers.convolution(in, width, 1);
                layers.norm(width);
                layers.convolution(width, width, 3);
                layers.norm(width);
                layers.convolution(width, out, 1);
                layers.norm(out);
            }
            if (in != out) {
                layers.convolution(in, out, 1);
                layers.norm(out);
            }
            in = out;
        }
        width *= 2;
    }
    layers.linear(in, classes);
    return {name, std::move(layers.variables)};
}

Model vgg(std::string_view name, std::span<const std::uint64_t> widths) {
    Layers layers;
    std::uint64_t in = 3;
    for (const std::uint64_t out : widths) {
        layers.convolution_with_bias(in, out, 3);
        in = out;
    }
    layers.linear(std::uint64_t{512} * 7 * 7, 4096);
    layers.linear(4096, 4096);
    layers.linear(4096, classes);
    return {name, std::move(layers.variables)};
}

Model alexnet() {
    Layers layers;
    layers.convolution_with_bias(3, 64, 11);
    layers.convolution_with_bias(64, 192, 5);
    layers.convolution_with_bias(192, 384, 3);
    layers.convolution_with_bias(384, 256, 3);
    layers.convolution_with_bias(256, 256, 3);
    layers.linear(std::uint64_t{256} * 6 * 6, 4096);
    layers.linear(4096, 4096);
    layers.linear(4096, classes);
    return {"AlexNet", std::move(layers.variables)};
}

}  // namespace

std::uint64_t Model::bytes() const {
    return std::accumulate(variables.begin(), variables.end(), std::uint64_t{0});
}

std::vector<Model> image_models() {
    constexpr std::array<std::uint64_t, 8> vgg11 = {64, 128, 256, 256, 512, 512, 512, 512};
    constexpr std::array<std::uint64_t, 13> vgg16 = {64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512};
    return {resnet("ResNet18", {2, 2, 2, 2}, 1),
            resnet("ResNet50", {3, 4, 6, 3}, 4),
            resnet("ResNet101", {3, 4, 23, 3}, 4),
            vgg("VGG11", vgg11),
            vgg("VGG16", vgg16),
            alexnet()};
}

}  // namespace chaos::sim
