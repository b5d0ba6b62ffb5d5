#include "compute/engines.h"
#include "compute/torch/models.h"
#include "state/hugging_face.h"

#include "base/file.h"
#include "base/random.h"
#include "shared.h"

#include <gtest/gtest.h>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace chaos::compute {
namespace {

EngineOptions small_llama(bool tied) {
    EngineOptions options;
    run::Llama& llama = options.model.llama;
    llama.vocab = 50;
    llama.width = 24;
    llama.layers = 2;
    llama.heads = 4;
    llama.kv_heads = 2;
    llama.head_width = 6;
    llama.ffn = 40;
    llama.tied_head = tied;
    options.sample = {true, {9}, 50, true};
    options.threads = 2;
    return options;
}

data::Batch some_batch(std::int64_t count, std::uint64_t stream) {
    data::Batch batch;
    batch.count = count;
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count) * 9; ++i) {
        batch.tokens.push_back(static_cast<std::int64_t>(random_bits(1, stream, i) % 50));
        batch.targets.push_back(static_cast<std::int64_t>(random_bits(2, stream, i) % 50));
    }
    batch.samples.resize(static_cast<std::size_t>(count));
    return batch;
}

data::Batch half_of(const data::Batch& batch, bool second) {
    data::Batch half;
    half.count = batch.count / 2;
    const auto middle = static_cast<std::ptrdiff_t>(batch.tokens.size() / 2);
    const std::ptrdiff_t begin = second ? middle : 0;
    half.tokens.assign(batch.tokens.begin() + begin, batch.tokens.begin() + begin + middle);
    half.targets.assign(batch.targets.begin() + begin, batch.targets.begin() + begin + middle);
    half.samples.resize(static_cast<std::size_t>(half.count));
    return half;
}

class Llama : public ::testing::TestWithParam<bool> {};

// The slope of the loss along a tensor's own gradient is the gradient's length: one check covers a whole tensor.
TEST_P(Llama, GradientIsTheDerivative) {
    const auto engine = make_llama_engine(small_llama(GetParam()));
    for (float& value : engine->arena().parameters()) value *= 5.0F;  // livelier than freshly initialised
    const data::Batch batch = some_batch(4, 1);
    ASSERT_TRUE(engine->forward_backward(batch, {}));
    const std::vector<float> gradient(engine->result().begin(), engine->result().end());
    for (const state::TensorInfo& info : engine->manifest().parameters) {
        const std::span<const float> g = std::span(gradient).subspan(info.begin, info.elements());
        double squares = 0.0;
        for (const float value : g) squares += static_cast<double>(value) * value;
        const double norm = std::sqrt(squares);
        const std::span<float> parameters = engine->arena().parameters().subspan(info.begin, info.elements());
        const std::vector<float> kept(parameters.begin(), parameters.end());
        const auto loss_at = [&](double distance) {
            for (std::size_t i = 0; i < kept.size(); ++i)
                parameters[i] = static_cast<float>(kept[i] + distance * g[i] / norm);
            return engine->evaluate(batch)->loss;
        };
        const double slope = (loss_at(2e-3) - loss_at(-2e-3)) / 4e-3;
        std::copy(kept.begin(), kept.end(), parameters.begin());
        EXPECT_NEAR(slope / norm, 1.0, 0.02) << info.name;
    }
}

TEST_P(Llama, PartsOfABatchAddUpToTheWhole) {
    const auto engine = make_llama_engine(small_llama(GetParam()));
    const data::Batch batch = some_batch(4, 1);
    const auto whole = engine->forward_backward(batch, {});
    const std::vector<float> expected(engine->result().begin(), engine->result().end());
    const auto first = engine->forward_backward(half_of(batch, false), {0, 0.5F, true});
    const auto second = engine->forward_backward(half_of(batch, true), {0, 0.5F, false});
    EXPECT_NEAR((first->loss + second->loss) / 2.0, whole->loss, 1e-6);
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(engine->result()[i], expected[i], 1e-6);
}

TEST_P(Llama, APartOfWeightZeroContributesNothing) {
    const auto engine = make_llama_engine(small_llama(GetParam()));
    ASSERT_TRUE(engine->forward_backward(some_batch(4, 1), {}));
    ASSERT_TRUE(engine->forward_backward(some_batch(4, 1), {0, 0.0F, true}));
    for (const float value : engine->result()) ASSERT_EQ(value, 0.0F);
}

TEST_P(Llama, GradientsBecomeFinalFromTheBack) {
    const auto engine = make_llama_engine(small_llama(GetParam()));
    EXPECT_EQ(expect_final_when_told(*engine, some_batch(4, 1)), 6U);  // twice per layer, once behind and once before
}

TEST_P(Llama, TheSameStepGivesTheSameBits) {
    const auto engine = make_llama_engine(small_llama(GetParam()));
    const auto again = make_llama_engine(small_llama(GetParam()));
    for (int step = 0; step < 3; ++step) {
        ASSERT_TRUE(engine->forward_backward(some_batch(4, 1), {}));
        ASSERT_TRUE(again->forward_backward(some_batch(4, 1), {}));
        EXPECT_EQ(std::memcmp(engine->result().data(), again->result().data(), again->result().size_bytes()), 0);
        ASSERT_TRUE(again->evaluate(some_batch(3, 2)));  // another size in between changes nothing
    }
}

INSTANTIATE_TEST_SUITE_P(TiedAndUntied, Llama, ::testing::Bool());

TEST(LlamaFile, RefusesImagesAndLargeVocabularies) {
    EngineOptions options = small_llama(false);
    options.sample = {false, {3, 8, 8}, 10, false};
    EXPECT_ANY_THROW(static_cast<void>(make_llama_engine(options)));
    options = small_llama(false);
    options.sample.classes = 51;
    EXPECT_ANY_THROW(static_cast<void>(make_llama_engine(options)));
}

class LlamaReference : public ::testing::TestWithParam<const char*> {};

TEST_P(LlamaReference, LogitsMatchTransformers) {
    CHAOS_NEED_SHARED("models");
    const std::filesystem::path folder = test::shared("models") / GetParam();
    const auto expected = nlohmann::json::parse(*read_file(folder / "expected.json"));
    EngineOptions options;
    const auto config = state::read_llama_config(folder);
    ASSERT_TRUE(config) << config.error().message;
    options.model.llama = *config;
    options.sample = {true, {1}, config->vocab, true};
    const auto engine = make_llama_engine(options);
    const auto loaded = state::read_weights(folder, engine->manifest(), engine->arena());
    ASSERT_TRUE(loaded) << loaded.error().message;

    const auto batch_of = [](const nlohmann::json& ids) {
        data::Batch batch;
        batch.count = 1;
        batch.tokens = ids.get<std::vector<std::int64_t>>();
        batch.targets.assign(batch.tokens.begin() + 1, batch.tokens.end());
        batch.targets.push_back(0);
        return batch;
    };
    ASSERT_FALSE(expected["cases"].empty());
    for (const auto& item : expected["cases"]) {
        const auto logits = engine->outputs(batch_of(item["ids"]));
        const auto last = item["last_logits"].get<std::vector<float>>();
        for (std::size_t i = 0; i < last.size(); ++i)
            ASSERT_NEAR((*logits)[logits->size() - last.size() + i], last[i], 1e-4) << item["prompt"];
    }
    data::Batch text = batch_of(expected["long"]["ids"]);
    text.tokens.pop_back();
    text.targets.pop_back();
    EXPECT_NEAR(engine->evaluate(text)->loss, expected["long"]["mean_nll"].get<double>(), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(All, LlamaReference, ::testing::Values("llama2-tiny", "llama3-shakespeare"));

}  // namespace
}  // namespace chaos::compute
