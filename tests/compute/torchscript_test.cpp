#include "compute/torch/torchscript.h"

#include "compute/engines.h"
#include "compute/torch/torch.h"

#include <gmock/gmock.h>

#include <fstream>

namespace chaos::compute {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

class TorchScript : public testing::Test {
protected:
    TorchScript() { std::filesystem::create_directories(folder_); }
    ~TorchScript() override { std::filesystem::remove_all(folder_); }

    std::filesystem::path file() const { return folder_ / "model.pt"; }
    void save(const torch::jit::Module& module) const { module.save(file().string()); }

    // Images {3, 2}, 4 classes.
    EngineOptions options(const std::string& loss = "cross_entropy") const {
        EngineOptions result = image_options("torchscript", {3, 2}, 4);
        result.model.path = file();
        result.model.loss = loss;
        return result;
    }
    // 5 tokens of a vocabulary of 11.
    EngineOptions text_options(const std::string& loss = "cross_entropy") const {
        EngineOptions result = token_options("torchscript", 5, 11);
        result.model.path = file();
        result.model.loss = loss;
        return result;
    }
    std::string refusal(const EngineOptions& options) const {
        const auto engine = try_engine(options);
        EXPECT_FALSE(engine.ok());
        return engine.ok() ? std::string() : engine.error().message;
    }

private:
    std::filesystem::path folder_ =
        std::filesystem::temp_directory_path() / ("chaos-torchscript-" + std::to_string(::getpid()) + "-" +
                                                  testing::UnitTest::GetInstance()->current_test_info()->name());
};

torch::jit::Module module_of(const std::string& source, std::vector<NamedTensor> parameters,
                             std::vector<NamedTensor> buffers = {}) {
    torch::jit::Module module("model");
    module.register_attribute("training", c10::BoolType::get(), true);
    for (auto& [name, tensor] : parameters) module.register_parameter(name, tensor.requires_grad_(), false);
    for (auto& [name, tensor] : buffers) module.register_buffer(name, tensor);
    module.define(source);
    return module;
}

torch::Tensor weights(torch::IntArrayRef shape) {
    torch::manual_seed(11);
    return torch::randn(shape).mul(0.3);
}

torch::jit::Module classifier(std::int64_t classes = 4) {
    return module_of("def forward(self, x):\n  return torch.matmul(x.flatten(1), self.weight) + self.bias\n",
                     {{"weight", weights({6, classes})}, {"bias", weights({classes})}});
}

torch::Tensor images(const data::Batch& batch) {
    return torch::from_blob(const_cast<float*>(batch.values.data()), {batch.count, 6}).clone();
}

torch::Tensor targets(const data::Batch& batch) {
    return torch::from_blob(const_cast<std::int64_t*>(batch.targets.data()), {batch.count}, torch::kInt64).clone();
}

TEST_F(TorchScript, GradientsAreAutograds) {
    save(classifier());
    const auto engine = make_engine(options());
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(engine->manifest().parameters[0].name, "weight");
    EXPECT_EQ(engine->manifest().parameters[1].name, "bias");
    const data::Batch batch = make_batch(options().sample, 8);
    const Measure measure = step(*engine, batch);

    const auto weight = weights({6, 4}).requires_grad_();
    const auto loss = torch::cross_entropy_loss(images(batch).matmul(weight) + weights({4}), targets(batch));
    loss.backward();
    EXPECT_NEAR(measure.loss, loss.item<double>(), 1e-6);
    const auto found = torch::from_blob(engine->result().data(), {6, 4});
    EXPECT_TRUE(torch::allclose(found, weight.grad(), 1e-5, 1e-6));
    EXPECT_EQ(engine->outputs(batch)->size(), 8U * 4U);
}

TEST_F(TorchScript, MoreClassesThanTheDataHasAreFine) {
    save(classifier(6));
    EXPECT_EQ(make_engine(options())->outputs(make_batch(options().sample, 2))->size(), 12U);
}

TEST_F(TorchScript, LogProbabilities) {
    save(classifier());
    const data::Batch batch = make_batch(options().sample, 8);
    const double expected = make_engine(options())->evaluate(batch)->loss;
    save(
        module_of("def forward(self, x):\n"
                  "  return (torch.matmul(x.flatten(1), self.weight) + self.bias).log_softmax(-1)\n",
                  {{"weight", weights({6, 4})}, {"bias", weights({4})}}));
    EXPECT_NEAR(make_engine(options("nll"))->evaluate(batch)->loss, expected, 1e-6);
}

TEST_F(TorchScript, MeanSquareOfOneValueASample) {
    for (const std::string shape : {"", ".unsqueeze(1)"}) {
        save(module_of("def forward(self, x):\n  return torch.matmul(x.flatten(1), self.weight)" + shape + "\n",
                       {{"weight", weights({6})}}));
        const auto engine = make_engine(options("mse"));
        const data::Batch batch = make_batch(options().sample, 8);
        const Measure measure = step(*engine, batch);
        const auto expected = torch::mse_loss(images(batch).matmul(weights({6})), targets(batch).to(torch::kFloat32));
        EXPECT_NEAR(measure.loss, expected.item<double>(), 1e-5);
        EXPECT_FALSE(measure.correct.has_value());
    }
}

TEST_F(TorchScript, TheModuleMayComputeTheLossItself) {
    save(classifier());
    const data::Batch batch = make_batch(options().sample, 8);
    const auto reference = make_engine(options());
    const double expected = step(*reference, batch).loss;
    save(
        module_of("def forward(self, x, y):\n"
                  "  z = torch.matmul(x.flatten(1), self.weight) + self.bias\n"
                  "  return -z.log_softmax(-1).gather(1, y.unsqueeze(1)).mean()\n",
                  {{"weight", weights({6, 4})}, {"bias", weights({4})}}));
    const auto engine = make_engine(options("module"));
    const Measure measure = step(*engine, batch);
    EXPECT_NEAR(measure.loss, expected, 1e-6);
    EXPECT_FALSE(measure.correct.has_value());
    EXPECT_EQ(measure.targets, 8U);
    EXPECT_LT(relative_difference(copy(reference->result()), copy(engine->result())), 1e-5);
    EXPECT_THAT(engine->outputs(batch).error().message, HasSubstr("no outputs"));
}

torch::jit::Module language_model(std::int64_t vocab) {
    return module_of("def forward(self, x):\n  return torch.matmul(torch.embedding(self.table, x), self.head)\n",
                     {{"table", weights({vocab, 6})}, {"head", weights({6, vocab})}});
}

TEST_F(TorchScript, TokensHaveATargetAtEveryPosition) {
    save(language_model(11));
    const auto engine = make_engine(text_options());
    const data::Batch batch = make_batch(text_options().sample, 3);
    const Measure measure = step(*engine, batch);
    EXPECT_EQ(measure.targets, 15U);
    EXPECT_EQ(engine->evaluate(batch)->correct, measure.correct);
    EXPECT_EQ(engine->outputs(batch)->size(), 3U * 5U * 11U);
}

TEST_F(TorchScript, BatchesMayBeDividedIntoParts) {
    save(language_model(11));
    const auto engine = make_engine(text_options());
    step(*engine, make_batch(text_options().sample, 4));
    const std::vector<float> whole = copy(engine->result());
    step(*engine, make_batch(text_options().sample, 2, 0), {.step = 0, .weight = 0.5F, .first = true});
    step(*engine, make_batch(text_options().sample, 2, 2), {.step = 0, .weight = 0.5F, .first = false});
    EXPECT_LT(relative_difference(whole, copy(engine->result())), 1e-5);
}

TEST_F(TorchScript, EqualStepsGiveEqualBitsAndOthersOtherDropout) {
    save(
        module_of("def forward(self, x):\n"
                  "  h = torch.dropout(torch.tanh(torch.matmul(x.flatten(1), self.first)), 0.5, self.training)\n"
                  "  return torch.matmul(h * torch.sigmoid(h), self.second)\n",
                  {{"first", weights({6, 32})}, {"second", weights({32, 4})}}));
    const auto engine = make_engine(options());
    const data::Batch batch = make_batch(options().sample, 8);
    step(*engine, batch, {.step = 3});
    const std::vector<float> first = copy(engine->result());
    for (int i = 0; i < 4; ++i) {
        step(*engine, batch, {.step = 3});
        EXPECT_EQ(copy(engine->result()), first) << i;
    }
    step(*engine, batch, {.step = 4});
    EXPECT_NE(copy(engine->result()), first);
    EXPECT_EQ(engine->evaluate(batch)->loss, engine->evaluate(batch)->loss);
}

TEST_F(TorchScript, BuffersAreAveragedWhetherChangedOrReplaced) {
    for (const std::string update :
         {"self.seen = 0.5 * self.seen + 0.5 * x.mean()", "self.seen.mul_(0.5).add_(0.5 * x.mean())"}) {
        save(
            module_of("def forward(self, x):\n"
                      "  if self.training:\n"
                      "    " +
                          update +
                          "\n"
                          "    self.num_batches_tracked = self.num_batches_tracked + 1\n"
                          "  return torch.matmul(x.flatten(1), self.weight) * self.seen.sum()\n",
                      {{"weight", weights({6, 4})}},
                      {{"seen", torch::full({2}, 4.0F)}, {"num_batches_tracked", torch::zeros({}, torch::kInt64)}}));
        const auto engine = make_engine(options());
        ASSERT_EQ(engine->manifest().buffer_elements(), 2U);
        data::Batch batch = make_batch(options().sample, 2);
        std::fill(batch.values.begin(), batch.values.end(), 2.0F);
        for (int i = 0; i < 2; ++i) {
            step(*engine, batch);
            EXPECT_THAT(copy(engine->result().last(2)), Each(3.0F));
            EXPECT_THAT(copy(engine->arena().buffers()), Each(4.0F));
        }
    }
}

TEST_F(TorchScript, ABufferMayBeReplacedAfterItsUse) {
    // The old value is needed for the gradient, after the module has put another in its place.
    save(
        module_of("def forward(self, x):\n"
                  "  y = torch.matmul(x.flatten(1), self.weight) * self.seen\n"
                  "  self.seen = 0.5 * self.seen + 0.5 * x.mean()\n"
                  "  return y\n",
                  {{"weight", weights({6, 4})}}, {{"seen", torch::ones({4})}}));
    const auto engine = make_engine(options());
    ASSERT_NE(engine, nullptr);
    const data::Batch batch = make_batch(options().sample, 2);
    step(*engine, batch);
    const std::vector<float> first = copy(engine->result());
    step(*engine, batch);
    EXPECT_EQ(copy(engine->result()), first);
}

TEST_F(TorchScript, RefusesAnIntegerBufferThatChanges) {
    save(
        module_of("def forward(self, x):\n"
                  "  if self.training:\n"
                  "    self.calls = self.calls + 1\n"
                  "  return torch.matmul(x.flatten(1), self.weight)\n",
                  {{"weight", weights({6, 4})}}, {{"calls", torch::zeros({}, torch::kInt64)}}));
    const auto measure = make_engine(options())->forward_backward(make_batch(options().sample, 2), {});
    ASSERT_FALSE(measure.ok());
    EXPECT_THAT(measure.error().message, HasSubstr("buffer calls (Long)"));
}

TEST_F(TorchScript, TiedWeightsStayTied) {
    const auto table = weights({11, 6});
    torch::jit::Module module("model");
    module.register_parameter("table", table.requires_grad_(), false);
    module.register_parameter("head", table, false);
    module.define("def forward(self, x):\n  return torch.matmul(torch.embedding(self.table, x), self.head.t())\n");
    save(module);
    const auto engine = make_engine(text_options());
    ASSERT_EQ(engine->manifest().parameters.size(), 1U);
    const data::Batch batch = make_batch(text_options().sample, 2);
    std::fill(engine->arena().parameters().begin(), engine->arena().parameters().end(), 0.0F);
    EXPECT_THAT(*engine->outputs(batch), Each(0.0F));
    EXPECT_TRUE(std::isfinite(step(*engine, batch).loss));
}

TEST_F(TorchScript, TheBatchIsNotWrittenTo) {
    save(module_of("def forward(self, x):\n  x.mul_(2.0)\n  return torch.matmul(x.flatten(1), self.weight)\n",
                   {{"weight", weights({6, 4})}}));
    const auto engine = make_engine(options());
    const data::Batch batch = make_batch(options().sample, 2);
    const std::vector<float> before = batch.values;
    step(*engine, batch);
    EXPECT_EQ(batch.values, before);
}

TEST_F(TorchScript, FilesThatCallPyTorchTwosAttentionTrain) {
    save(
        module_of("def forward(self, x):\n"
                  "  h = torch.embedding(self.table, x)\n"
                  "  h = h + torch.scaled_dot_product_attention(h, h, h, None, 0.0, True)\n"
                  "  return torch.matmul(h, self.head)\n",
                  {{"table", weights({11, 8})}, {"head", weights({8, 11})}}));
    const auto engine = make_engine(text_options());
    ASSERT_NE(engine, nullptr);
    data::Batch batch = make_batch(text_options().sample, 2);
    EXPECT_TRUE(std::isfinite(step(*engine, batch).loss));
    EXPECT_THAT(copy(engine->result()), Not(Each(0.0F)));
    // Causal: the outputs at the first position do not see the last token.
    const auto before = *engine->outputs(batch);
    batch.tokens[4] = (batch.tokens[4] + 1) % 11;
    const auto after = *engine->outputs(batch);
    EXPECT_TRUE(std::equal(before.begin(), before.begin() + 11, after.begin()));
    EXPECT_NE(before, after);
}

TEST_F(TorchScript, RefusesMissingAndForeignFiles) {
    EXPECT_THAT(refusal(options()), AllOf(HasSubstr(file().string()), HasSubstr("no such file")));
    std::ofstream(file()) << "weights, honestly";
    EXPECT_THAT(refusal(options()),
                AllOf(HasSubstr(file().string()), HasSubstr("cannot be loaded as TorchScript"), Not(HasSubstr("\n"))));
}

TEST_F(TorchScript, RefusesOutputsThatDoNotFit) {
    save(classifier(3));
    EXPECT_THAT(refusal(options()), AllOf(HasSubstr("model.path"), HasSubstr("{2, 3}"), HasSubstr("4 classes")));
    save(module_of("def forward(self, x):\n  return torch.matmul(x, self.weight)\n", {{"weight", weights({2, 4})}}));
    EXPECT_THAT(refusal(options()), HasSubstr("{2, 3, 4}"));
    save(classifier());
    EXPECT_THAT(refusal(options("mse")), AllOf(HasSubstr("{2, 4}"), HasSubstr("{2} or {2, 1}")));
    save(module_of("def forward(self, x, y):\n  return torch.matmul(x.flatten(1), self.weight)\n",
                   {{"weight", weights({6, 4})}}));
    EXPECT_THAT(refusal(options("module")), AllOf(HasSubstr("{2, 4}"), HasSubstr("scalar")));
    save(module_of("def forward(self, x):\n  return (x, self.weight)\n", {{"weight", weights({6, 4})}}));
    EXPECT_THAT(refusal(options()), HasSubstr("Tuple"));
}

TEST_F(TorchScript, RefusesForwardsThatCannotBeCalled) {
    save(classifier());
    EXPECT_THAT(refusal(options("module")), HasSubstr("forward takes 1 input, but it must be forward(input, target)"));
    save(module_of("def forward(self, x, y):\n  return x\n", {{"weight", weights({6, 4})}}));
    EXPECT_THAT(refusal(options()), HasSubstr("forward takes 2 inputs"));
    save(module_of("def encode(self, x):\n  return x\n", {{"weight", weights({6, 4})}}));
    EXPECT_THAT(refusal(options()), HasSubstr("no method forward"));
    save(module_of("def forward(self, x):\n  return torch.matmul(x.flatten(1), self.weight)\n",
                   {{"weight", weights({5, 4})}}));
    EXPECT_THAT(refusal(options()),
                AllOf(HasSubstr("{2, 3, 2}"), HasSubstr("cannot be multiplied"), Not(HasSubstr("\n"))));
}

TEST_F(TorchScript, RefusesAnEmbeddingSmallerThanTheVocabulary) {
    save(language_model(10));
    EXPECT_THAT(refusal(text_options()), AllOf(HasSubstr("{2, 5}"), HasSubstr("index")));
}

TEST_F(TorchScript, RefusesParametersOfOtherTypesByName) {
    save(module_of("def forward(self, x):\n  return torch.matmul(x.flatten(1), self.weight.float())\n",
                   {{"weight", weights({6, 4}).to(torch::kFloat64)}}));
    EXPECT_THAT(refusal(options()), HasSubstr("weight is Double"));
    EXPECT_THAT(refusal(options("hinge")), HasSubstr("model.loss"));
}

// attention_pytorch2.py wrote the file with PyTorch 2.11, and printed these numbers.
TEST(TorchScriptFile, OfPyTorch2WithItsAttentionGivesTheSameOutputsAndLearns) {
    EngineOptions options = token_options("torchscript", 5, 64);
    options.model.path = std::filesystem::path(CHAOS_SOURCE) / "tests/compute/attention_pytorch2.pt";
    const auto engine = make_engine(options);
    data::Batch batch = make_batch(options.sample, 2);
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) batch.tokens[i] = static_cast<std::int64_t>(i * 7 % 64);
    const auto outputs = engine->outputs(batch);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    double sum = 0.0;
    double absolute = 0.0;
    for (const float value : *outputs) {
        sum += value;
        absolute += std::abs(value);
    }
    EXPECT_NEAR(sum, -12.679922700859606, 1e-3);
    EXPECT_NEAR(absolute, 327.04951862152666, 1e-3);
    EXPECT_NEAR(outputs->at(outputs->size() - 61), 0.7345765233039856, 1e-5);

    const double before = engine->evaluate(batch)->loss;
    for (std::uint64_t i = 0; i < 20; ++i) {
        step(*engine, batch, {i, 1.0F, true});
        const std::span<float> parameters = engine->arena().parameters();
        for (std::size_t j = 0; j < parameters.size(); ++j) parameters[j] -= 0.1F * engine->result()[j];
    }
    EXPECT_LT(engine->evaluate(batch)->loss, 0.8 * before);
}

}  // namespace
}  // namespace chaos::compute
