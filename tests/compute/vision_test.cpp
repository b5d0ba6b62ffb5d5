#include "compute/torch/vision.h"

#include "base/hash.h"
#include "compute/engines.h"
#include "compute/torch/torch.h"

#include <gmock/gmock.h>

#include <map>

namespace chaos::compute {
namespace {

using testing::HasSubstr;

const std::vector<std::string> all_kinds = {"mlp",       "resnet18", "resnet34", "resnet50",
                                            "resnet101", "vgg11",    "vgg16",    "alexnet"};

std::map<std::string, std::vector<std::int64_t>> shapes_of(const EngineOptions& options) {
    std::map<std::string, std::vector<std::int64_t>> shapes;
    auto network = make_vision_network(options);
    EXPECT_TRUE(network.ok());
    for (const auto& [name, tensor] : network->parameters) shapes[name] = tensor.sizes().vec();
    return shapes;
}

std::int64_t parameter_count(const std::string& kind) {
    std::int64_t count = 0;
    for (const auto& [name, shape] : shapes_of(image_options(kind, {3, 224, 224}, 1000))) {
        count += c10::multiply_integers(shape);
    }
    return count;
}

class EveryModel : public testing::TestWithParam<std::string> {};

TEST_P(EveryModel, TrainsOnSmallImages) {
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{1, 28, 28}, {3, 32, 32}}) {
        const EngineOptions options = image_options(GetParam(), shape, 10);
        const auto engine = make_engine(options);
        ASSERT_NE(engine, nullptr);
        const data::Batch batch = make_batch(options.sample, 2);
        const Measure measure = step(*engine, batch);
        EXPECT_TRUE(std::isfinite(measure.loss));
        EXPECT_EQ(measure.targets, 2U);
        EXPECT_EQ(engine->outputs(batch)->size(), 20U);
        for (const state::TensorInfo& info : engine->manifest().parameters) {
            const auto gradient = engine->result().subspan(info.begin, info.elements());
            EXPECT_TRUE(std::any_of(gradient.begin(), gradient.end(), [](float g) { return g != 0.0F; })) << info.name;
            EXPECT_TRUE(std::all_of(gradient.begin(), gradient.end(), [](float g) { return std::isfinite(g); }))
                << info.name;
        }
        // A layer's weights and bias may become final in any order.
        EXPECT_GE(expect_final_when_told(*engine, batch), engine->manifest().parameters.size() / 4);
    }
}

INSTANTIATE_TEST_SUITE_P(Vision, EveryModel, testing::ValuesIn(all_kinds), [](const auto& kind) { return kind.param; });

TEST(Vision, HasAsManyParametersAsTorchvision) {
    EXPECT_EQ(parameter_count("resnet18"), 11'689'512);
    EXPECT_EQ(parameter_count("resnet34"), 21'797'672);
    EXPECT_EQ(parameter_count("resnet50"), 25'557'032);
    EXPECT_EQ(parameter_count("resnet101"), 44'549'160);
    EXPECT_EQ(parameter_count("alexnet"), 61'100'840);
    EXPECT_EQ(parameter_count("vgg11"), 132'868'840);
    EXPECT_EQ(parameter_count("vgg16"), 138'365'992);
}

using Shape = std::vector<std::int64_t>;

TEST(Vision, NamesAreTorchvisions) {
    auto resnet = shapes_of(image_options("resnet50", {3, 224, 224}, 1000));
    EXPECT_EQ(resnet["conv1.weight"], (Shape{64, 3, 7, 7}));
    EXPECT_EQ(resnet["bn1.bias"], (Shape{64}));
    EXPECT_EQ(resnet["layer1.0.conv1.weight"], (Shape{64, 64, 1, 1}));
    EXPECT_EQ(resnet["layer1.0.downsample.0.weight"], (Shape{256, 64, 1, 1}));
    EXPECT_EQ(resnet["layer1.0.downsample.1.weight"], (Shape{256}));
    EXPECT_EQ(resnet["layer4.2.conv3.weight"], (Shape{2048, 512, 1, 1}));
    EXPECT_EQ(resnet["layer4.2.bn3.weight"], (Shape{2048}));
    EXPECT_EQ(resnet["fc.weight"], (Shape{1000, 2048}));

    auto small = shapes_of(image_options("resnet18", {1, 28, 28}, 10));
    EXPECT_EQ(small["conv1.weight"], (Shape{64, 1, 3, 3}));
    EXPECT_EQ(small.count("layer1.0.downsample.0.weight"), 0U);
    EXPECT_EQ(small["layer2.0.downsample.0.weight"], (Shape{128, 64, 1, 1}));

    auto vgg = shapes_of(image_options("vgg16", {3, 32, 32}, 10));
    EXPECT_EQ(vgg["features.0.weight"], (Shape{64, 3, 3, 3}));
    EXPECT_EQ(vgg["features.1.weight"], (Shape{64}));
    EXPECT_EQ(vgg["features.40.bias"], (Shape{512}));
    EXPECT_EQ(vgg["features.41.bias"], (Shape{512}));
    EXPECT_EQ(vgg["classifier.0.weight"], (Shape{4096, 512}));
    EXPECT_EQ(vgg["classifier.6.weight"], (Shape{10, 4096}));

    auto alexnet = shapes_of(image_options("alexnet", {3, 224, 224}, 1000));
    EXPECT_EQ(alexnet["features.10.weight"], (Shape{256, 256, 3, 3}));
    EXPECT_EQ(alexnet["classifier.1.weight"], (Shape{4096, 9216}));
    EXPECT_EQ(alexnet["classifier.6.weight"], (Shape{1000, 4096}));

    auto mlp = shapes_of(image_options("mlp", {1, 28, 28}, 10));
    EXPECT_EQ(mlp["layers.0.weight"], (Shape{256, 784}));
    EXPECT_EQ(mlp["layers.1.bias"], (Shape{10}));
}

TEST(Vision, LargeImagesUseTheOriginalStem) {
    for (const std::string kind : {"resnet18", "alexnet"}) {
        const EngineOptions options = image_options(kind, {3, 80, 72}, 5);
        EXPECT_TRUE(std::isfinite(step(*make_engine(options), make_batch(options.sample, 2)).loss)) << kind;
    }
}

TEST(Vision, TakesOddImagesWithAnyNumberOfChannels) {
    for (const std::string kind : {"resnet18", "vgg11", "alexnet"}) {
        const EngineOptions options = image_options(kind, {5, 9, 17}, 3);
        EXPECT_TRUE(std::isfinite(step(*make_engine(options), make_batch(options.sample, 2)).loss)) << kind;
    }
}

// These bits are the start of every run with this model and seed, on every machine.
TEST(Vision, InitialValuesAreTheSameBitsEverywhere) {
    EngineOptions options = image_options("resnet18", {3, 32, 32}, 10);
    const auto engine = make_engine(options);
    const auto parameters = engine->arena().parameters();
    EXPECT_EQ(xxh3(std::as_bytes(parameters)), 3297038505256992057U);
    options.threads = 2;
    EXPECT_EQ(copy(make_engine(options)->arena().parameters()), copy(parameters));
    options.seed = 8;
    EXPECT_NE(copy(make_engine(options)->arena().parameters()), copy(parameters));
}

TEST(Vision, InitialValuesHaveTheRightSpread) {
    auto network = make_vision_network(image_options("vgg11", {3, 32, 32}, 10));
    for (const auto& [name, tensor] : network->parameters) {
        if (tensor.dim() == 4) {
            const double fan_out = static_cast<double>(tensor.size(0) * tensor.size(2) * tensor.size(3));
            EXPECT_NEAR(tensor.std().item<double>() / std::sqrt(2.0 / fan_out), 1.0, 0.05) << name;
        } else if (tensor.dim() == 2) {
            const double bound = 1.0 / std::sqrt(static_cast<double>(tensor.size(1)));
            EXPECT_LE(tensor.abs().max().item<double>(), bound) << name;
            EXPECT_NEAR(tensor.std().item<double>() / (bound / std::sqrt(3.0)), 1.0, 0.05) << name;
        }
    }
}

TEST(Vision, EqualStepsGiveEqualBits) {
    for (const std::string norm : {"group", "batch"}) {
        EngineOptions options = image_options("resnet18", {3, 16, 16}, 10);
        options.model.norm = norm;
        options.threads = 2;
        const auto engine = make_engine(options);
        const auto twin = make_engine(options);
        const data::Batch batch = make_batch(options.sample, 4);
        step(*engine, batch);
        const std::vector<float> first = copy(engine->result());
        step(*engine, batch);
        EXPECT_EQ(copy(engine->result()), first);
        step(*twin, batch);
        EXPECT_EQ(copy(twin->result()), first);
    }
}

TEST(Vision, DropoutDependsOnSamplesAndNotOnParts) {
    for (const std::string kind : {"alexnet", "vgg11"}) {
        const EngineOptions options = image_options(kind, {3, 32, 32}, 10);
        const auto engine = make_engine(options);
        step(*engine, make_batch(options.sample, 4), {.step = 5, .weight = 1.0F, .first = true});
        const std::vector<float> whole = copy(engine->result());
        step(*engine, make_batch(options.sample, 2, 0), {.step = 5, .weight = 0.5F, .first = true});
        step(*engine, make_batch(options.sample, 2, 2), {.step = 5, .weight = 0.5F, .first = false});
        EXPECT_LT(relative_difference(whole, copy(engine->result())), 1e-5) << kind;
        step(*engine, make_batch(options.sample, 4), {.step = 6, .weight = 1.0F, .first = true});
        EXPECT_GT(relative_difference(whole, copy(engine->result())), 1e-2) << kind;
    }
}

TEST(Vision, EvaluationDropsNothing) {
    EngineOptions options = image_options("alexnet", {3, 32, 32}, 10);
    const data::Batch batch = make_batch(options.sample, 4);
    options.model.dropout = 0.0;
    const double without = step(*make_engine(options), batch).loss;
    options.model.dropout = 0.5;
    const auto engine = make_engine(options);
    EXPECT_NEAR(engine->evaluate(batch)->loss, without, 1e-5);
    EXPECT_NE(step(*engine, batch).loss, without);
}

TEST(Vision, BatchNormKeepsItsStatisticsInBuffers) {
    EngineOptions options = image_options("resnet18", {3, 32, 32}, 10);
    options.model.norm = "batch";
    const auto engine = make_engine(options);
    ASSERT_EQ(engine->manifest().buffers.size(), 2U * 20U);
    const state::TensorInfo& mean = engine->manifest().buffers[0];
    const state::TensorInfo& variance = engine->manifest().buffers[1];
    EXPECT_EQ(mean.name, "bn1.running_mean");
    EXPECT_EQ(variance.name, "bn1.running_var");
    EXPECT_EQ(engine->arena().buffers()[mean.begin], 0.0F);
    EXPECT_EQ(engine->arena().buffers()[variance.begin], 1.0F);

    const data::Batch batch = make_batch(options.sample, 4);
    step(*engine, batch);
    auto images = torch::from_blob(const_cast<float*>(batch.values.data()), {4, 3, 32, 32});
    auto weight = torch::from_blob(engine->arena().parameters().data(), {64, 3, 3, 3});
    const auto activations = torch::conv2d(images, weight, {}, 1, 1);
    const auto expected_mean = 0.1 * activations.mean({0, 2, 3});
    const auto expected_variance = 0.9 + 0.1 * activations.var({0, 2, 3}, /*unbiased=*/true);
    const auto buffers = engine->result().last(engine->manifest().buffer_elements());
    for (std::uint64_t channel = 0; channel < 64; ++channel) {
        const auto i = static_cast<std::int64_t>(channel);
        EXPECT_NEAR(buffers[mean.begin + channel], expected_mean[i].item<float>(), 1e-5);
        EXPECT_NEAR(buffers[variance.begin + channel], expected_variance[i].item<float>(), 1e-5);
    }
}

TEST(Vision, RefusesWhatDoesNotFit) {
    const auto message = [](const EngineOptions& options) {
        const auto network = make_vision_network(options);
        return network.ok() ? std::string() : network.error().message;
    };
    EXPECT_THAT(message(token_options("resnet18", 8, 10)), HasSubstr("tokens"));
    EXPECT_THAT(message(image_options("vgg16", {784}, 10)), HasSubstr("1 extents"));
    EXPECT_THAT(message(image_options("lenet", {3, 32, 32}, 10)), HasSubstr("lenet"));
    EngineOptions options = image_options("mlp", {784}, 10);
    options.model.classes = 9;
    EXPECT_THAT(message(options), HasSubstr("model.classes = 9"));
    options = image_options("resnet18", {3, 32, 32}, 10);
    options.model.norm = "layer";
    EXPECT_THAT(message(options), HasSubstr("model.norm"));
}

}  // namespace
}  // namespace chaos::compute
