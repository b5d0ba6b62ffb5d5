#include "infer/tensor_model.h"

#include "infer/model_file.h"
#include "shared.h"

#include <gtest/gtest.h>

namespace chaos::infer {
namespace {

Config large() {
    Config config;
    config.kind = "llama";
    config.vocab = 128256;
    config.width = 8192;
    config.layers = 80;
    config.heads = 64;
    config.kv_heads = 8;
    config.head_width = 128;
    config.ffn = 28672;
    config.max_context = 8192;
    return config;
}

TEST(TensorModel, UnitsOfALargeModel) {
    const Config config = large();
    const std::vector<PackedTensor> tensors = packed_tensors(config, Format::q4_0);
    const plan::TensorModel model = tensor_model(config, tensors, {.context = 2048, .sequences = 1, .batch = 32});
    EXPECT_EQ(model.head_unit, 1U);
    EXPECT_EQ(model.ffn_units, 112U);
    EXPECT_EQ(model.vocab_units, 1002U);  // of 128 rows
    EXPECT_EQ(weight_bytes(model), packed_bytes(tensors));
    EXPECT_EQ(model.cache_bytes * model.layers * model.kv_heads, KvCache::bytes(config, 2048, KvType::f16));
    EXPECT_GT(model.ring_bytes, std::uint64_t{16} << 20);
}

TEST(TensorModel, NarrowHeadsStayTogether) {
    Config config = large();
    config.head_width = 16;
    EXPECT_EQ(tensor_units(config).heads, 2);
    config.head_width = 48;
    EXPECT_EQ(tensor_units(config).heads, 2);
    config.head_width = 4;
    EXPECT_EQ(tensor_units(config).heads, 8);
    config.heads = 3;
    config.kv_heads = 3;
    EXPECT_EQ(tensor_units(config).heads, 3);
}

TEST(TensorModel, FfnUnitsAreWholeBlocks) {
    Config config = large();
    config.ffn = 11008;  // 43 x 256
    EXPECT_EQ(tensor_units(config).ffn_columns, 256);
    config.ffn = 352;  // 11 x 32
    EXPECT_EQ(tensor_units(config).ffn_columns, 32);
    config.ffn = 100;
    EXPECT_EQ(tensor_units(config).ffn_columns, 32);
    EXPECT_EQ(tensor_model(config, packed_tensors(config, Format::f16), {.context = 16}).ffn_units, 4U);
}

// Slices of a plan follow each other to the end, and each can be computed.
TEST(TensorModel, SharesAreSlices) {
    Config config = large();
    config.head_width = 16;
    config.ffn = 1120;  // 35 units of 32
    config.vocab = 1001;
    plan::TensorRequest request;
    request.model = tensor_model(config, packed_tensors(config, Format::q4_0), {.context = 64});
    for (std::uint32_t i = 0; i < 3; ++i) request.devices.push_back({.id = i, .weight_bytes_per_s = 1'000'000 + i});
    request.links = {{0, 1, plan::unlimited, plan::unlimited, 0},
                     {0, 2, plan::unlimited, plan::unlimited, 0},
                     {1, 2, plan::unlimited, plan::unlimited, 0}};
    const auto plan = plan_tensor(request);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    Slice end;
    for (const plan::TensorShare& share : plan->shares) {
        const Slice slice = slice_of(config, share);
        const auto sound = check_slice(config, slice);
        EXPECT_TRUE(sound.ok()) << sound.error().message;
        EXPECT_EQ(slice.heads.first, end.heads.end());
        EXPECT_EQ(slice.ffn.first, end.ffn.end());
        EXPECT_EQ(slice.vocab.first, end.vocab.end());
        EXPECT_EQ(kv_heads_of(config, slice).count, static_cast<std::int64_t>(share.kv_heads.count));
        end = slice;
    }
    EXPECT_EQ(end.heads.end(), 64);
    EXPECT_EQ(end.ffn.end(), 1120);
    EXPECT_EQ(end.vocab.end(), 1001);
}

// Units cover at least the weights that are there; little is counted twice.
TEST(TensorModel, CoversModelsOfFiles) {
    CHAOS_NEED_SHARED("models");
    for (const char* name : {"llama2-tiny", "llama3-shakespeare", "qwen2-tiny", "qwen3-tiny"}) {
        const auto file = ModelFile::open(test::shared("models") / name);
        ASSERT_TRUE(file.ok()) << file.error().message;
        const std::vector<PackedTensor> tensors = packed_tensors(*file);
        const plan::TensorModel model = tensor_model(file->config(), tensors, {.context = 64, .batch = 8});
        EXPECT_GE(weight_bytes(model), packed_bytes(tensors)) << name;
        EXPECT_LE(weight_bytes(model), packed_bytes(tensors) * 5 / 4) << name;
    }
}

}  // namespace
}  // namespace chaos::infer
