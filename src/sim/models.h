// The six models that the comparison moves, as lists of their trainable variables: image classifiers with heads of ten
// classes, parameters in fp32.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace chaos::sim {

struct Model {
    std::string_view name;
    std::vector<std::uint64_t> variables;  // bytes of each, in the order of the layers

    [[nodiscard]] std::uint64_t bytes() const;
};

// ResNet18, ResNet50, ResNet101, VGG11, VGG16, AlexNet
[[nodiscard]] std::vector<Model> image_models();

}  // namespace chaos::sim
