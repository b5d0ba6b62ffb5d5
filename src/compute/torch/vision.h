// Image models: mlp, resnet18/34/50/101, vgg11/16 and alexnet, with torchvision's structure and tensor names, for
// images of any number of channels. Images below 64 pixels would shrink to nothing inside models made for 224; how
// each model treats them is said where it is built.
#pragma once

#include "compute/engine.h"
#include "compute/torch/network.h"

namespace chaos::compute {

[[nodiscard]] Result<Network> make_vision_network(const EngineOptions& options);

}  // namespace chaos::compute
