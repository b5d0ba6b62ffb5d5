#include "compute/torch/vision.h"

#include "base/words.h"
#include "compute/torch/layers.h"

#include <array>

namespace chaos::compute {

namespace {

constexpr std::int64_t small_image_extent = 64;

// What all models are built from.
struct Plan {
    std::int64_t channels;
    bool small;
    std::int64_t classes;
    Norm norm;
    double dropout;
};

Layer mlp(Tensors& tensors, std::int64_t in, const std::vector<std::int64_t>& hidden, std::int64_t classes) {
    std::vector<Layer> layers = {flatten()};
    const auto add = [&](std::int64_t out) {
        layers.push_back(linear(tensors, "layers." + std::to_string(tensors.parameters.size() / 2), in, out));
        in = out;
    };
    for (const std::int64_t width : hidden) {
        add(width);
        layers.push_back(relu());
    }
    add(classes);
    return chain(std::move(layers));
}

struct ResNet {
    std::array<int, 4> blocks;  // per stage
    bool bottleneck;            // blocks of 1x1, 3x3, 1x1 convolutions, four times as wide outside, instead of two 3x3
};

Layer residual_block(Tensors& tensors, const std::string& name, std::int64_t in, std::int64_t width,
                     std::int64_t stride, const ResNet& resnet, Norm kind) {
    const std::int64_t out = resnet.bottleneck ? 4 * width : width;
    std::vector<Layer> body;
    const auto add = [&](const std::string& number, const Convolution& shape) {
        if (!body.empty()) body.push_back(relu());
        body.push_back(convolution(tensors, name + ".conv" + number, shape));
        body.push_back(norm(tensors, name + ".bn" + number, shape.out, kind));
    };
    if (resnet.bottleneck) {
        add("1", {.in = in, .out = width, .kernel = 1});
        add("2", {.in = width, .out = width, .stride = stride, .padding = 1});
        add("3", {.in = width, .out = out, .kernel = 1});
    } else {
        add("1", {.in = in, .out = width, .stride = stride, .padding = 1});
        add("2", {.in = width, .out = out, .padding = 1});
    }
    std::vector<Layer> shortcut;
    if (stride != 1 || in != out) {
        shortcut.push_back(convolution(tensors, name + ".downsample.0", {in, out, /*kernel=*/1, stride}));
        shortcut.push_back(norm(tensors, name + ".downsample.1", out, kind));
    }
    return [body = chain(std::move(body)), shortcut = chain(std::move(shortcut))](torch::Tensor x, const Call& call) {
        torch::Tensor y = body(x, call);
        y += shortcut(std::move(x), call);
        return y.relu_();
    };
}

// Small images: a 3x3 convolution of stride 1 in front and no pooling, as is usual for CIFAR.
Layer resnet(Tensors& tensors, const ResNet& shape, const Plan& plan) {
    constexpr std::int64_t first_width = 64;
    std::vector<Layer> layers;
    if (plan.small) {
        layers.push_back(convolution(tensors, "conv1", {.in = plan.channels, .out = first_width, .padding = 1}));
    } else {
        layers.push_back(convolution(tensors, "conv1", {plan.channels, first_width, /*kernel=*/7, 2, /*padding=*/3}));
    }
    layers.push_back(norm(tensors, "bn1", first_width, plan.norm));
    layers.push_back(relu());
    if (!plan.small) layers.push_back(max_pool({.kernel = 3, .stride = 2, .padding = 1}));

    std::int64_t in = first_width;
    for (std::size_t stage = 0; stage < shape.blocks.size(); ++stage) {
        const std::int64_t width = first_width << stage;
        for (int block = 0; block < shape.blocks[stage]; ++block) {
            const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
            const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
            layers.push_back(residual_block(tensors, name, in, width, stride, shape, plan.norm));
            in = shape.bottleneck ? 4 * width : width;
        }
    }
    layers.push_back(average_pool(1));
    layers.push_back(flatten());
    layers.push_back(linear(tensors, "fc", in, plan.classes));
    return chain(std::move(layers));
}

// Widths of the 3x3 convolutions between the five poolings. Small images: the poolings round up, so that any extent
// arrives as at least 1x1, and the average pool in front of the classifier goes to 1x1 instead of 7x7.
Layer vgg(Tensors& tensors, const std::vector<std::vector<std::int64_t>>& stages, const Plan& plan) {
    constexpr std::int64_t hidden = 4096;
    std::vector<Layer> layers;
    std::int64_t in = plan.channels;
    int index = 0;  // torchvision counts every layer of `features`
    for (const auto& stage : stages) {
        for (const std::int64_t out : stage) {
            layers.push_back(convolution(tensors, "features." + std::to_string(index),
                                         {.in = in, .out = out, .padding = 1, .bias = true}));
            layers.push_back(norm(tensors, "features." + std::to_string(index + 1), out, plan.norm));
            layers.push_back(relu());
            index += 3;
            in = out;
        }
        layers.push_back(max_pool({.ceil = plan.small}));
        ++index;
    }
    const std::int64_t extent = plan.small ? 1 : 7;
    layers.push_back(average_pool(extent));
    layers.push_back(flatten());
    layers.push_back(linear(tensors, "classifier.0", in * extent * extent, hidden));
    layers.push_back(relu());
    layers.push_back(dropout(plan.dropout, 0));
    layers.push_back(linear(tensors, "classifier.3", hidden, hidden));
    layers.push_back(relu());
    layers.push_back(dropout(plan.dropout, 1));
    layers.push_back(linear(tensors, "classifier.6", hidden, plan.classes));
    return chain(std::move(layers));
}

// Has no norms. Small images: the first convolution is 3x3 of stride 2 instead of 11x11 of stride 4, the poolings are
// 2x2 and round up instead of 3x3, and the classifier sees 2x2 instead of 6x6: 32 -> 16 -> 8 -> 4 -> 2.
Layer alexnet(Tensors& tensors, const Plan& plan) {
    constexpr std::int64_t hidden = 4096;
    const Convolution first = plan.small ? Convolution{plan.channels, 64, 3, 2, 1, true}  //
                                         : Convolution{plan.channels, 64, 11, 4, 2, true};
    const Pool pool = plan.small ? Pool{.kernel = 2, .ceil = true} : Pool{.kernel = 3};
    const std::int64_t extent = plan.small ? 2 : 6;
    std::vector<Layer> layers;
    const auto add = [&](int index, const Convolution& shape) {
        layers.push_back(convolution(tensors, "features." + std::to_string(index), shape));
        layers.push_back(relu());
    };
    add(0, first);
    layers.push_back(max_pool(pool));
    add(3, {.in = 64, .out = 192, .kernel = 5, .padding = 2, .bias = true});
    layers.push_back(max_pool(pool));
    add(6, {.in = 192, .out = 384, .padding = 1, .bias = true});
    add(8, {.in = 384, .out = 256, .padding = 1, .bias = true});
    add(10, {.in = 256, .out = 256, .padding = 1, .bias = true});
    layers.push_back(max_pool(pool));
    layers.push_back(average_pool(extent));
    layers.push_back(flatten());
    layers.push_back(dropout(plan.dropout, 0));
    layers.push_back(linear(tensors, "classifier.1", 256 * extent * extent, hidden));
    layers.push_back(relu());
    layers.push_back(dropout(plan.dropout, 1));
    layers.push_back(linear(tensors, "classifier.4", hidden, hidden));
    layers.push_back(relu());
    layers.push_back(linear(tensors, "classifier.6", hidden, plan.classes));
    return chain(std::move(layers));
}

Result<Layer> build(const std::string& kind, Tensors& tensors, const Plan& plan) {
    if (kind == "resnet18") return resnet(tensors, {{2, 2, 2, 2}, false}, plan);
    if (kind == "resnet34") return resnet(tensors, {{3, 4, 6, 3}, false}, plan);
    if (kind == "resnet50") return resnet(tensors, {{3, 4, 6, 3}, true}, plan);
    if (kind == "resnet101") return resnet(tensors, {{3, 4, 23, 3}, true}, plan);
    if (kind == "vgg11") return vgg(tensors, {{64}, {128}, {256, 256}, {512, 512}, {512, 512}}, plan);
    if (kind == "vgg16") {
        return vgg(tensors, {{64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}}, plan);
    }
    if (kind == "alexnet") return alexnet(tensors, plan);
    constexpr std::array<std::string_view, 10> kinds = {"llama",     "mlp",   "resnet18", "resnet34", "resnet50",
                                                        "resnet101", "vgg11", "vgg16",    "alexnet",  "torchscript"};
    return Error{"model.kind = \"" + kind + "\" is unknown: it is one of " + one_of(kinds)};
}

Result<Norm> find_norm(const std::string& name) {
    if (name == "group") return Norm::group;
    if (name == "batch") return Norm::batch;
    return Error{"model.norm = \"" + name + "\" is unknown: it is group or batch"};
}

}  // namespace

Result<Network> make_vision_network(const EngineOptions& options) {
    const run::Model& model = options.model;
    const data::SampleShape& sample = options.sample;
    const std::string subject = "model.kind = \"" + model.kind + "\" ";
    if (sample.tokens) return Error{subject + "needs images or values, but the data are tokens"};
    if (model.classes < std::max<std::int64_t>(sample.classes, 1)) {
        return Error{"model.classes = " + std::to_string(model.classes) + " is too few: the data have " +
                     std::to_string(sample.classes)};
    }
    if (model.dropout < 0.0 || model.dropout >= 1.0) {
        return Error{"model.dropout = " + std::to_string(model.dropout) + " is outside [0, 1)"};
    }
    CHAOS_TRY(const Norm kind, find_norm(model.norm));

    Tensors tensors{.seed = options.seed, .parameters = {}, .buffers = {}};
    Layer layer;
    if (model.kind == "mlp") {
        layer = mlp(tensors, sample.input_elements(), model.hidden, model.classes);
    } else {
        if (sample.input.size() != 3) {
            return Error{subject + "needs images {channels, height, width}, but a sample of the data has " +
                         std::to_string(sample.input.size()) + " extents"};
        }
        const Plan plan{.channels = sample.input[0],
                        .small = std::min(sample.input[1], sample.input[2]) < small_image_extent,
                        .classes = model.classes,
                        .norm = kind,
                        .dropout = model.dropout};
        CHAOS_TRY(layer, build(model.kind, tensors, plan));
    }
    return Network{.parameters = std::move(tensors.parameters),
                   .buffers = std::move(tensors.buffers),
                   .loss = Loss::cross_entropy,
                   .forward = [layer](const Call& call) { return layer(call.input, call); }};
}

}  // namespace chaos::compute
