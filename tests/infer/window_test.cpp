#include "infer/window.h"

#include "base/file.h"
#include "infer/forecast.h"
#include "infer/models.h"
#include "infer/packed_file.h"
#include "infer/small_model.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::infer {
namespace {

using chaos::test::TemporaryFolder;
using test::Ids;

// A model whose weights may take so many bytes in memory, in parts of a few panels.
struct Windowed {
    Windowed(const std::filesystem::path& path, const std::filesystem::path& folder, std::uint64_t bytes,
             DirectReader::Way way = DirectReader::Way::best)
        : pool(2) {
        ModelFile file = std::move(ModelFile::open(path)).value();
        const auto tensors = packed_tensors(file);
        const auto parts = parts_of(tensors, 20'000);
        const std::array batches = {Batch{Engine::max_tokens, 0}};
        const auto plan = plan_window({.budget_bytes = bytes, .batches = batches, .parts = parts});
        EXPECT_TRUE(plan) << plan.error().message;
        packed = packed_file(file, tensors, {.path = folder}, pool, {}).value();
        auto window = Window::open(packed, parts, *plan, {}, way);
        EXPECT_TRUE(window) << window.error().message;
        model.emplace(Model::in_window(std::move(file), std::move(*window)));
        engine.emplace(*model, pool);
    }
    std::filesystem::path packed;
    Pool pool;
    std::optional<Model> model;
    std::optional<Engine> engine;
};

// In pieces, of which some ask for no logits: those passes need no head.
std::vector<float> logits_of(Engine& engine, const Ids& ids) {
    KvCache cache = KvCache::make(engine.config(), ids.size(), KvType::f16).value();
    std::vector<float> result;
    std::size_t at = 0;
    for (std::size_t i = 0; at < ids.size(); ++i) {
        const auto tokens = std::span(ids).subspan(at, std::min<std::size_t>(i % 4 == 3 ? 20 : 1, ids.size() - at));
        const auto some = engine.forward(std::array{Piece{&cache, tokens, i % 3 == 1 ? 0 : tokens.size()}});
        EXPECT_TRUE(some) << some.error().message;
        result.insert(result.end(), some->begin(), some->end());
        at += tokens.size();
    }
    return result;
}

TEST(Window, LogitsAreTheSameForEveryBudget) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    for (const char* name : {"qwen3-tiny-f16", "qwen3-tiny-q4_0", "llama2-tiny-q8_0"}) {
        test::Loaded resident(test::gguf(name));
        const auto wanted = test::expected(std::string(name).substr(0, std::string(name).rfind('-')));
        const auto ids = wanted["long"]["ids"].get<Ids>();
        const Ids some(ids.begin(), ids.begin() + 60);
        const auto logits = logits_of(*resident.engine, some);
        const std::uint64_t all = packed_bytes(resident.model->tensors());
        for (const std::uint64_t share : {2U, 4U, 8U}) {
            for (const auto way : {DirectReader::Way::best, DirectReader::Way::threads}) {
                Windowed windowed(test::gguf(name), folder.path(), all / share, way);
                const WindowPlan& plan = windowed.model->window()->plan();
                EXPECT_GT(plan.streamed_bytes, all / 2 / share);
                EXPECT_LE(plan.pinned_bytes + plan.slots * plan.slot_bytes, all / share);
                EXPECT_EQ(logits_of(*windowed.engine, some), logits) << name << ", 1/" << share;
            }
        }
    }
}

TEST(Window, AFileThatCannotBeReadIsAnErrorThatChangesNothing) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    const auto model = test::gguf("qwen3-tiny-q4_0");
    test::Loaded resident(model);
    const Ids ids = {5, 6, 7, 8, 9};
    const auto logits = logits_of(*resident.engine, ids);
    Windowed windowed(model, folder.path(), packed_bytes(resident.model->tensors()) / 4);
    const std::string content = read_file(windowed.packed).value();
    KvCache cache = KvCache::make(windowed.engine->config(), 8, KvType::f16).value();
    std::filesystem::resize_file(windowed.packed, direct_read_bytes);
    const auto failed = windowed.engine->forward(std::array{Piece{&cache, ids, 1}});
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().message, testing::HasSubstr("it was cut off"));
    EXPECT_EQ(cache.size(), 0U);
    // The same file, whole again.
    std::ofstream(windowed.packed, std::ios::binary | std::ios::in) << content;
    EXPECT_EQ(logits_of(*windowed.engine, ids), logits);
}

TEST(Window, ForecastsWhatATokenTakes) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    const auto path = test::gguf("qwen3-tiny-q4_0");
    const test::Loaded resident(path);
    Windowed windowed(path, folder.path(), packed_bytes(resident.model->tensors()) / 4);
    const auto expected = forecast(*windowed.model, windowed.pool);
    ASSERT_TRUE(expected) << expected.error().message;
    EXPECT_EQ(expected->streamed_bytes, windowed.model->window()->plan().streamed_bytes);
    EXPECT_GT(expected->disk_bytes_per_s, 0.0);
    EXPECT_GT(expected->compute_s, 0.0);
    EXPECT_GE(expected->token_s(), expected->disk_s());
}

TEST(Window, ForecastsForWidthsThatNoScaleDivides) {
    const TemporaryFolder folder;
    Config config = test::small_config("llama", 200);
    config.ffn = 300;
    const auto path = folder / "model.gguf";
    ASSERT_TRUE(write_gguf(path, test::small_metadata(config, false), test::small_tensors(config, StoredType::f16)));
    const test::Loaded resident(path);
    Windowed windowed(path, folder.path(), packed_bytes(resident.model->tensors()) / 2);
    const auto expected = forecast(*windowed.model, windowed.pool);
    ASSERT_TRUE(expected) << expected.error().message;
    EXPECT_GT(expected->streamed_bytes, 0U);
    EXPECT_GT(expected->compute_s, 0.0);
}

}  // namespace
}  // namespace chaos::infer
