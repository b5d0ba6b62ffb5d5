#include "compute/torch/autograd_engine.h"

#include "compute/engines.h"

#include <gmock/gmock.h>

namespace chaos::compute {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

EngineOptions tiny_options() {
    EngineOptions options = image_options("mlp", {1, 2, 3}, 4);
    options.model.hidden = {8};
    return options;
}

// A network of one weight matrix {3, 4} on inputs {3}, to be varied by each test.
Network linear_network() {
    Network network;
    const auto weight = torch::ones({3, 4}).div(8).requires_grad_();
    network.parameters = {{"weight", weight}};
    network.forward = [weight](const Call& call) { return call.input.matmul(weight); };
    return network;
}

EngineOptions linear_options() {
    return image_options("", {3}, 4);
}

std::unique_ptr<Engine> adopt(Network network) {
    auto engine = AutogradEngine::make(std::move(network), linear_options());
    if (engine.ok()) return std::move(engine).value();
    ADD_FAILURE() << engine.error().message;
    return nullptr;
}

// The loss as a function of the parameters, for finite differences.
double loss_at(Engine& engine, const data::Batch& batch, std::span<float> at, std::span<const float> direction,
               float distance) {
    const std::vector<float> before = copy(at);
    for (std::size_t i = 0; i < at.size(); ++i) at[i] += distance * direction[i];
    const double loss = engine.evaluate(batch)->loss;
    std::copy(before.begin(), before.end(), at.begin());
    return loss;
}

TEST(AutogradEngine, GradientsAgreeWithFiniteDifferences) {
    const EngineOptions options = tiny_options();
    const auto engine = make_engine(options);
    const data::Batch batch = make_batch(options.sample, 16);
    step(*engine, batch);
    const std::vector<float> gradient = copy(engine->result());
    for (const state::TensorInfo& info : engine->manifest().parameters) {
        // Along the tensor's own gradient, scaled to length 1, the loss rises by the gradient's length.
        std::vector<float> direction(gradient.begin() + static_cast<std::ptrdiff_t>(info.begin),
                                     gradient.begin() + static_cast<std::ptrdiff_t>(info.begin + info.elements()));
        double square = 0.0;
        for (const float value : direction) square += double{value} * double{value};
        const double length = std::sqrt(square);
        for (float& value : direction) value = static_cast<float>(value / length);
        const auto at = engine->arena().parameters().subspan(info.begin, info.elements());
        constexpr float distance = 2e-2F;
        const double slope =
            (loss_at(*engine, batch, at, direction, distance) - loss_at(*engine, batch, at, direction, -distance)) /
            (2.0 * distance);
        EXPECT_NEAR(slope / length, 1.0, 5e-3) << info.name;
    }
}

TEST(AutogradEngine, PartsAddUpToTheWholeBatch) {
    const EngineOptions options = tiny_options();
    const auto engine = make_engine(options);
    const Measure whole = step(*engine, make_batch(options.sample, 8));
    const std::vector<float> expected = copy(engine->result());
    const Measure first = step(*engine, make_batch(options.sample, 2, 0), {.step = 0, .weight = 0.25F, .first = true});
    const Measure second =
        step(*engine, make_batch(options.sample, 6, 2), {.step = 0, .weight = 0.75F, .first = false});
    EXPECT_LT(relative_difference(expected, copy(engine->result())), 1e-5);
    EXPECT_NEAR(whole.loss, 0.25 * first.loss + 0.75 * second.loss, 1e-5);
    EXPECT_EQ(*whole.correct, *first.correct + *second.correct);
    EXPECT_EQ(whole.targets, 8U);
}

TEST(AutogradEngine, TheFirstPartOverwritesWhatWasThere) {
    const EngineOptions options = tiny_options();
    const auto engine = make_engine(options);
    const data::Batch batch = make_batch(options.sample, 4);
    step(*engine, batch);
    const std::vector<float> expected = copy(engine->result());
    std::fill(engine->result().begin(), engine->result().end(), 3.0F);
    step(*engine, batch);
    EXPECT_EQ(copy(engine->result()), expected);
}

TEST(AutogradEngine, ParametersAreViewsOfTheArena) {
    const EngineOptions options = tiny_options();
    const auto engine = make_engine(options);
    std::fill(engine->arena().parameters().begin(), engine->arena().parameters().end(), 0.0F);
    const data::Batch batch = make_batch(options.sample, 3);
    EXPECT_THAT(*engine->outputs(batch), Each(0.0F));
    EXPECT_NEAR(engine->evaluate(batch)->loss, std::log(4.0), 1e-6);
}

TEST(AutogradEngine, CountsTargetsWhoseLargestOutputWasRight) {
    const EngineOptions options = tiny_options();
    const auto engine = make_engine(options);
    const data::Batch batch = make_batch(options.sample, 32);
    const std::vector<float> outputs = *engine->outputs(batch);
    std::uint64_t correct = 0;
    for (std::size_t i = 0; i < 32; ++i) {
        const auto row = outputs.begin() + static_cast<std::ptrdiff_t>(4 * i);
        correct += std::max_element(row, row + 4) - row == batch.targets[i] ? 1U : 0U;
    }
    EXPECT_EQ(engine->evaluate(batch)->correct, correct);
    EXPECT_EQ(step(*engine, batch).correct, correct);
}

TEST(AutogradEngine, MatricesDecayAndVectorsDoNot) {
    const auto engine = make_engine(tiny_options());
    for (const state::TensorInfo& info : engine->manifest().parameters) {
        EXPECT_EQ(info.decay, info.shape.size() >= 2) << info.name;
    }
}

// Adds the input's mean to a buffer, the simplest thing like a BatchNorm.
Network network_with_average(const torch::Tensor& average) {
    Network network = linear_network();
    network.buffers = {{"average", average}};
    network.forward = [average, forward = network.forward](const Call& call) {
        const torch::NoGradGuard no_gradient;
        torch::Tensor changed = average;
        if (call.training) changed.copy_(0.5 * changed + 0.5 * call.input.mean());
        const torch::AutoGradMode gradient(true);
        return forward(call);
    };
    return network;
}

TEST(AutogradEngine, BuffersStartFromTheArenaAndEndInTheResult) {
    const auto engine = adopt(network_with_average(torch::full({2}, 4.0F)));
    ASSERT_EQ(engine->manifest().buffers.size(), 1U);
    EXPECT_EQ(engine->manifest().buffers[0].name, "average");
    engine->arena().buffers()[1] = 8.0F;
    const std::vector<float> before = copy(engine->arena().all());

    data::Batch batch = make_batch(linear_options().sample, 2);
    std::fill(batch.values.begin(), batch.values.end(), 2.0F);
    step(*engine, batch, {.step = 0, .weight = 0.25F, .first = true});
    EXPECT_THAT(copy(engine->result().last(2)), ElementsAre(0.25F * 3.0F, 0.25F * 5.0F));
    std::fill(batch.values.begin(), batch.values.end(), 6.0F);
    step(*engine, batch, {.step = 0, .weight = 0.75F, .first = false});
    EXPECT_THAT(copy(engine->result().last(2)), ElementsAre(0.25F * 3.0F + 0.75F * 5.0F, 0.25F * 5.0F + 0.75F * 7.0F));
    EXPECT_TRUE(engine->evaluate(batch).ok());
    EXPECT_EQ(copy(engine->arena().all()), before);
}

TEST(AutogradEngine, RefusesAChangingBufferThatCannotBeAveraged) {
    for (const auto type : {torch::kInt64, torch::kFloat64}) {
        const auto engine = adopt(network_with_average(torch::full({2}, 4, type)));
        EXPECT_TRUE(engine->manifest().buffers.empty());
        data::Batch batch = make_batch(linear_options().sample, 2);
        std::fill(batch.values.begin(), batch.values.end(), 8.0F);
        const auto measure = engine->forward_backward(batch, {});
        ASSERT_FALSE(measure.ok());
        EXPECT_THAT(measure.error().message, HasSubstr("buffer average"));
    }
}

TEST(AutogradEngine, MasksWithInfiniteValuesAreConstants) {
    Network network = linear_network();
    const auto mask = torch::full({4}, -std::numeric_limits<float>::infinity());
    network.buffers = {{"mask", mask}};
    const auto engine = adopt(std::move(network));
    EXPECT_TRUE(engine->manifest().buffers.empty());
    step(*engine, make_batch(linear_options().sample, 2));
}

TEST(AutogradEngine, CountersStartEveryRunFromTheirFirstValue) {
    Network network = linear_network();
    const auto counter = torch::zeros({}, torch::kInt64);
    std::vector<std::int64_t> seen;
    network.buffers = {{"norm.num_batches_tracked", counter}};
    network.forward = [&seen, counter, forward = network.forward](const Call& call) {
        torch::Tensor changed = counter;
        changed.add_(1);
        seen.push_back(changed.item<std::int64_t>());
        return forward(call);
    };
    const auto engine = adopt(std::move(network));
    for (int i = 0; i < 3; ++i) step(*engine, make_batch(linear_options().sample, 2));
    EXPECT_THAT(seen, ElementsAre(1, 1, 1));
}

TEST(AutogradEngine, FrozenAndUnusedParametersKeepAZeroGradient) {
    Network network = linear_network();
    network.parameters.push_back({"unused", torch::ones({2, 2}).requires_grad_()});
    network.parameters.push_back({"frozen", torch::ones({2, 2})});
    const auto engine = adopt(std::move(network));
    EXPECT_TRUE(engine->manifest().parameters[1].decay);
    EXPECT_FALSE(engine->manifest().parameters[2].decay);
    std::fill(engine->result().begin(), engine->result().end(), 3.0F);
    step(*engine, make_batch(linear_options().sample, 2));
    EXPECT_THAT(copy(engine->result().first(12)), Not(Each(0.0F)));
    EXPECT_THAT(copy(engine->result().last(8)), Each(0.0F));
}

TEST(AutogradEngine, RefusesParametersThatAreNotFloat32) {
    Network network = linear_network();
    network.parameters.push_back({"layer.scale", torch::ones({2}, torch::kFloat64)});
    const auto engine = AutogradEngine::make(std::move(network), linear_options());
    ASSERT_FALSE(engine.ok());
    EXPECT_THAT(engine.error().message, HasSubstr("layer.scale is Double"));
}

TEST(AutogradEngine, RefusesAModelWithoutParameters) {
    Network network = linear_network();
    network.parameters.clear();
    EXPECT_FALSE(AutogradEngine::make(std::move(network), linear_options()).ok());
}

TEST(AutogradEngine, SaysWhenNothingCanBeLearnt) {
    Network network = linear_network();
    network.forward = [](const Call& call) { return torch::zeros({call.input.size(0), 4}); };
    const auto measure = adopt(std::move(network))->forward_backward(make_batch(linear_options().sample, 2), {});
    ASSERT_FALSE(measure.ok());
    EXPECT_THAT(measure.error().message, HasSubstr("none of its parameters"));
}

TEST(AutogradEngine, ExceptionsBecomeOneSentence) {
    Network network = linear_network();
    network.forward = [](const Call& call) { return call.input.matmul(torch::ones({5, 5})); };
    const auto engine = adopt(std::move(network));
    const data::Batch batch = make_batch(linear_options().sample, 2);
    for (const auto& message : {engine->forward_backward(batch, {}).error().message,
                                engine->evaluate(batch).error().message, engine->outputs(batch).error().message}) {
        EXPECT_THAT(message, HasSubstr("cannot be multiplied"));
        EXPECT_THAT(message, Not(HasSubstr("\n")));
        EXPECT_THAT(message, Not(HasSubstr("Exception raised")));
    }
}

TEST(AutogradEngine, EveryRunUsesTheEnginesThreads) {
    Network network = linear_network();
    std::vector<int> seen;
    network.forward = [&seen, forward = network.forward](const Call& call) {
        seen.push_back(at::get_num_threads());
        return forward(call);
    };
    const auto engine = adopt(std::move(network));
    at::set_num_threads(2);
    step(*engine, make_batch(linear_options().sample, 2));
    EXPECT_THAT(seen, ElementsAre(1));
}

TEST(PluginEntry, RefusalsComeBackAsErrors) {
    EXPECT_STREQ(chaos_engine_version(), CHAOS_ENGINE_VERSION);
    const auto unknown = try_engine(image_options("resnet19", {3, 32, 32}, 10));
    ASSERT_FALSE(unknown.ok());
    EXPECT_THAT(unknown.error().message, HasSubstr("resnet19"));
    EngineOptions options = tiny_options();
    options.threads = 0;
    EXPECT_FALSE(try_engine(options).ok());
}

}  // namespace
}  // namespace chaos::compute
