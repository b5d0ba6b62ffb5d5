#include "infer/engine.h"

#include "infer/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace chaos::infer {
namespace {

using nlohmann::json;
using test::expected;
using test::gguf;
using test::Ids;

struct Measured : test::Loaded {
    using test::Loaded::Loaded;

    KvCache cache(std::size_t capacity = 512) const {
        return KvCache::make(model->config(), capacity, kv_type).value();
    }

    // The logits of all tokens, given in pieces of `step`.
    std::vector<float> logits(const Ids& ids, std::size_t step = Engine::max_tokens) {
        KvCache all = cache();
        std::vector<float> result;
        for (std::size_t at = 0; at < ids.size(); at += step) {
            const auto tokens = std::span(ids).subspan(at, std::min(step, ids.size() - at));
            const std::array pieces = {Piece{&all, tokens, tokens.size()}};
            const auto some = engine->forward(pieces);
            EXPECT_TRUE(some) << some.error().message;
            result.insert(result.end(), some->begin(), some->end());
        }
        return result;
    }
    double mean_nll(const Ids& ids) {
        const std::vector<float> all = logits(ids);
        const std::size_t vocab = all.size() / ids.size();
        double sum = 0.0;
        for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
            const auto row = std::span(all).subspan(i * vocab, vocab);
            double total = 0.0;
            for (const float logit : row) total += std::exp(static_cast<double>(logit));
            sum += std::log(total) - row[static_cast<std::size_t>(ids[i + 1])];
        }
        return sum / static_cast<double>(ids.size() - 1);
    }
    Ids greedy(const Ids& ids, std::size_t count) {
        KvCache all = cache();
        Ids result = ids;
        Ids next = ids;
        for (std::size_t i = 0; i < count; ++i) {
            const std::array pieces = {Piece{&all, next, 1}};
            const auto row = engine->forward(pieces).value();
            next = {static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin())};
            result.push_back(next[0]);
        }
        return result;
    }

    KvType kv_type = KvType::f16;
};

double worst_logit(Measured& model, const json& wanted) {
    double worst = 0.0;
    for (const json& each : wanted["cases"]) {
        const auto all = model.logits(each["ids"].get<Ids>());
        const auto last = each["last_logits"].get<std::vector<double>>();
        for (std::size_t i = 0; i < last.size(); ++i)
            worst = std::max(worst, std::fabs(last[i] - all[all.size() - last.size() + i]));
    }
    return worst;
}

double mean_nll(Measured& model, const json& wanted) {
    double sum = model.mean_nll(wanted["long"]["ids"].get<Ids>());
    for (const json& each : wanted["cases"]) sum += model.mean_nll(each["ids"].get<Ids>());
    return sum / static_cast<double>(wanted["cases"].size() + 1);
}

TEST(Engine, AgreesWithTheReferenceImplementation) {
    CHAOS_NEED_SHARED("models");
    for (const char* name : {"llama2-tiny", "llama3-shakespeare", "qwen2-tiny", "qwen3-tiny"}) {
        Measured model(test::folder(name));
        model.kv_type = KvType::f32;
        const json wanted = expected(name);
        EXPECT_LT(worst_logit(model, wanted), 1e-4) << name;
        EXPECT_NEAR(model.mean_nll(wanted["long"]["ids"].get<Ids>()), wanted["long"]["mean_nll"].get<double>(), 1e-4);
        for (const json& each : wanted["cases"]) {
            const auto ids = each["ids"].get<Ids>();
            EXPECT_NEAR(model.mean_nll(ids), each["mean_nll"].get<double>(), 1e-4) << name << " " << each["prompt"];
            const auto greedy = each["greedy_ids"].get<Ids>();
            EXPECT_EQ(model.greedy(ids, greedy.size() - ids.size()), greedy) << name << " " << each["prompt"];
        }
    }
}

TEST(Engine, ContinuesAsTheReferenceImplementationWithHalfTheCacheToo) {
    CHAOS_NEED_SHARED("models");
    for (const char* name : {"llama2-tiny", "llama3-shakespeare", "qwen2-tiny", "qwen3-tiny"}) {
        Measured model(test::folder(name));
        const json wanted = expected(name);
        EXPECT_LT(worst_logit(model, wanted), 0.01) << name;
        for (const json& each : wanted["cases"]) {
            const auto ids = each["ids"].get<Ids>();
            const auto greedy = each["greedy_ids"].get<Ids>();
            EXPECT_EQ(model.greedy(ids, greedy.size() - ids.size()), greedy) << name << " " << each["prompt"];
        }
    }
}

TEST(Engine, GgufFilesContinueAsTheModelsTheyWereMadeFrom) {
    CHAOS_NEED_SHARED("models");
    for (const auto& [file, model_name] : {std::pair{"llama2-tiny-f32", "llama2-tiny"},
                                           {"llama3-shakespeare-f16", "llama3-shakespeare"},
                                           {"qwen3-tiny-f16", "qwen3-tiny"}}) {
        Measured model(gguf(file));
        const json wanted = expected(model_name);
        for (const json& each : wanted["cases"]) {
            const auto ids = each["ids"].get<Ids>();
            const auto greedy = each["greedy_ids"].get<Ids>();
            EXPECT_EQ(model.greedy(ids, greedy.size() - ids.size()), greedy) << file << " " << each["prompt"];
        }
    }
}

TEST(Engine, QuantizedFilesAreNearlyAsLikely) {
    CHAOS_NEED_SHARED("models");
    struct Case {
        const char* file;
        const char* model;
        double distance;
    };
    for (const Case& each : {Case{"llama2-tiny-q8_0", "llama2-tiny", 0.02},
                             {"llama2-tiny-q4_0", "llama2-tiny", 0.25},
                             {"llama3-shakespeare-q5_k_m", "llama3-shakespeare", 0.25},
                             {"llama3-shakespeare-q4_k_m", "llama3-shakespeare", 0.25},
                             {"qwen3-tiny-q8_0", "qwen3-tiny", 0.02},
                             {"qwen3-tiny-q4_0", "qwen3-tiny", 0.25}}) {
        Measured whole(test::folder(each.model));
        Measured quantized(gguf(each.file));
        const json wanted = expected(each.model);
        EXPECT_NEAR(mean_nll(quantized, wanted), mean_nll(whole, wanted), each.distance) << each.file;
    }
}

TEST(Engine, BitsDoNotDependOnPiecesThreadsOrCompany) {
    CHAOS_NEED_SHARED("models");
    for (const char* name : {"qwen3-tiny-f16", "qwen3-tiny-q4_0", "llama2-tiny-q8_0"}) {
        Measured model(gguf(name));
        Measured alone(gguf(name), 1);
        const auto wanted = expected(std::string(name).substr(0, std::string(name).rfind('-')));
        const auto ids = wanted["long"]["ids"].get<Ids>();
        const auto all = model.logits(ids);
        EXPECT_EQ(all, model.logits(ids, 1)) << name;
        EXPECT_EQ(all, model.logits(ids, 7)) << name;
        EXPECT_EQ(all, alone.logits(ids, 100)) << name;

        // Two other sequences, one before and one behind.
        KvCache cache = model.cache();
        KvCache first = model.cache();
        KvCache second = model.cache();
        const Ids other = wanted["cases"][0]["ids"].get<Ids>();
        const auto tokens = std::span(ids).first(64);
        const std::array pieces = {Piece{&first, other, 0}, Piece{&cache, tokens, tokens.size()},
                                   Piece{&second, other, 1}};
        const auto mixed = model.engine->forward(pieces).value();
        const std::size_t size = tokens.size() * 1024;
        EXPECT_TRUE(std::equal(mixed.begin(), mixed.begin() + static_cast<std::ptrdiff_t>(size), all.begin())) << name;
    }
}

TEST(Engine, ACutCacheGoesOnAsIfNothingHadBeen) {
    CHAOS_NEED_SHARED("models");
    Measured model(gguf("qwen3-tiny-f16"));
    const auto ids = expected("qwen3-tiny")["long"]["ids"].get<Ids>();
    const auto all = model.logits(Ids(ids.begin(), ids.begin() + 100));
    KvCache cache = model.cache();
    ASSERT_TRUE(model.engine->forward(std::array{Piece{&cache, std::span(ids).subspan(0, 60), 0}}));
    ASSERT_TRUE(model.engine->forward(std::array{Piece{&cache, std::span(ids).subspan(150, 60), 0}}));
    cache.cut(60);
    const auto rest = model.engine->forward(std::array{Piece{&cache, std::span(ids).subspan(60, 40), 40}});
    ASSERT_TRUE(rest);
    EXPECT_TRUE(std::equal(rest->begin(), rest->end(), all.begin() + 60 * 1024));
}

TEST(Engine, AFullContextIsAnErrorThatChangesNothing) {
    CHAOS_NEED_SHARED("models");
    Measured model(gguf("qwen3-tiny-q4_0"));
    KvCache cache = model.cache(8);
    const Ids ids = {5, 6, 7, 8, 9};
    ASSERT_TRUE(model.engine->forward(std::array{Piece{&cache, ids, 1}}));
    const auto full = model.engine->forward(std::array{Piece{&cache, ids, 1}});
    ASSERT_FALSE(full);
    EXPECT_THAT(full.error().message, testing::HasSubstr("room for 8 tokens, and 10 are needed"));
    EXPECT_EQ(cache.size(), 5U);
    const auto unknown = model.engine->forward(std::array{Piece{&cache, Ids{1024}, 1}});
    EXPECT_THAT(unknown.error().message, testing::HasSubstr("there is no token 1024"));
    EXPECT_TRUE(model.engine->forward(std::array{Piece{&cache, Ids{1, 2, 3}, 1}}));
}

}  // namespace
}  // namespace chaos::infer
