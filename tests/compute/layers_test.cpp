#include "compute/torch/layers.h"

#include <gmock/gmock.h>

namespace chaos::compute {
namespace {

Call training_call(std::span<const std::uint64_t> samples) {
    Call call;
    call.training = true;
    call.seed = 3;
    call.step = 9;
    call.samples = samples;
    return call;
}

TEST(Dropout, DropsTheAskedShareAndKeepsTheMean) {
    const std::vector<std::uint64_t> samples = {5, 6, 7, 8};
    const auto output = dropout(0.25, 0)(torch::ones({4, 10'000}), training_call(samples));
    EXPECT_NEAR(output.eq(0.0).to(torch::kFloat32).mean().item<double>(), 0.25, 0.01);
    EXPECT_NEAR(output.mean().item<double>(), 1.0, 0.01);
    EXPECT_FLOAT_EQ(output.max().item<float>(), 1.0F / 0.75F);
}

TEST(Dropout, DependsOnSampleStepSeedAndLayer) {
    const std::vector<std::uint64_t> samples = {5, 6};
    const std::vector<std::uint64_t> turned = {6, 5};
    const auto ones = torch::ones({2, 100});
    Call call = training_call(samples);
    const auto output = dropout(0.5, 0)(ones, call);
    EXPECT_FALSE(output[0].equal(output[1]));
    EXPECT_TRUE(dropout(0.5, 0)(ones, training_call(turned)).flip(0).equal(output));
    EXPECT_FALSE(dropout(0.5, 1)(ones, call).equal(output));
    call.step = 10;
    EXPECT_FALSE(dropout(0.5, 0)(ones, call).equal(output));
    call = training_call(samples);
    call.seed = 4;
    EXPECT_FALSE(dropout(0.5, 0)(ones, call).equal(output));
    call.training = false;
    EXPECT_TRUE(dropout(0.5, 0)(ones, call).equal(ones));
}

// As many groups as divide the channels, at most 32.
TEST(Norm, GroupsDivideTheChannels) {
    const std::vector<std::pair<std::int64_t, std::int64_t>> expected = {{64, 32}, {48, 24}, {37, 1}, {8, 8}};
    for (const auto& [channels, groups] : expected) {
        Tensors tensors;
        const auto images = torch::randn({2, channels, 2, 2});
        const auto output = norm(tensors, "norm", channels, Norm::group)(images, Call());
        EXPECT_TRUE(output.allclose(torch::group_norm(images, groups), 1e-4, 1e-5)) << channels;
    }
}

TEST(Layers, ParametersAreListedInTheOrderTheyAreBuilt) {
    Tensors tensors;
    const Layer layer = chain({convolution(tensors, "a", {.in = 3, .out = 4, .bias = true}),
                               norm(tensors, "b", 4, Norm::batch), linear(tensors, "c", 2, 5)});
    std::vector<std::string> names;
    for (const auto& parameter : tensors.parameters) names.push_back(parameter.name);
    EXPECT_THAT(names, testing::ElementsAre("a.weight", "a.bias", "b.weight", "b.bias", "c.weight", "c.bias"));
    EXPECT_EQ(tensors.buffers.size(), 2U);
}

}  // namespace
}  // namespace chaos::compute
