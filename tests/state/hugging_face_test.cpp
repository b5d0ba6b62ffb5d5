#include "state/hugging_face.h"

#include "base/file.h"
#include "state/checkpoint.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::state {
namespace {

using test::TemporaryFolder;
using ::testing::HasSubstr;

std::string config_with(const std::string& more) {
    return R"({"model_type":"llama","vocab_size":10,"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":4,
              "num_key_value_heads":2,"intermediate_size":16)" +
           more + "}";
}

std::string refusal(const std::string& config) {
    const TemporaryFolder folder;
    folder.write("config.json", config);
    const auto read = read_llama_config(folder.path());
    return read ? "accepted" : read.error().message;
}

TEST(HuggingFace, ConfigComesBackAsWritten) {
    run::Llama llama;
    llama.vocab = 300;
    llama.width = 64;
    llama.layers = 3;
    llama.heads = 4;
    llama.kv_heads = 2;
    llama.head_width = 16;
    llama.ffn = 160;
    llama.tied_head = true;
    llama.norm_epsilon = 1e-6;
    llama.rope = {"llama3", 500000.0, 8.0, 1.5, 3.5, 64};
    llama.bos_token = 7;
    llama.max_context = 512;
    const TemporaryFolder folder;
    folder.write("config.json", llama_config_json(llama));
    const auto read = read_llama_config(folder.path());
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->vocab, 300);
    EXPECT_EQ(read->kv_heads, 2);
    EXPECT_EQ(read->head_width, 16);
    EXPECT_TRUE(read->tied_head);
    EXPECT_EQ(read->norm_epsilon, 1e-6);
    EXPECT_EQ(read->rope.kind, "llama3");
    EXPECT_EQ(read->rope.high_frequency_factor, 3.5);
    EXPECT_EQ(read->rope.original_context, 64);
    EXPECT_EQ(read->bos_token, 7);
    EXPECT_FALSE(read->eos_token.has_value());
    EXPECT_EQ(read->max_context, 512);
}

TEST(HuggingFace, WhatIsNotSupportedIsRefusedByName) {
    EXPECT_EQ(refusal(config_with("")), "accepted");
    EXPECT_THAT(refusal(R"({"model_type":"gpt2"})"), HasSubstr("model_type \"gpt2\""));
    EXPECT_THAT(refusal(config_with(R"(,"attention_bias":true)")), HasSubstr("attention_bias"));
    EXPECT_THAT(refusal(config_with(R"(,"hidden_act":"gelu")")), HasSubstr("hidden_act \"gelu\""));
    EXPECT_THAT(refusal(config_with(R"(,"rope_scaling":{"type":"yarn"})")), HasSubstr("RoPE scaling \"yarn\""));
    EXPECT_THAT(refusal(R"({"model_type":"llama"})"), HasSubstr("\"vocab_size\" must be a whole number"));
    EXPECT_THAT(refusal("nonsense"), HasSubstr("not a JSON object"));
}

TEST(HuggingFace, WeightsTravelThroughACheckpoint) {
    Manifest manifest;
    manifest.add_parameter("model.b", {2, 2}, true);
    manifest.add_parameter("model.a", {3}, false);
    Arena arena(manifest, 2);
    for (std::size_t i = 0; i < arena.all().size(); ++i) arena.all()[i] = static_cast<float>(i);
    const TemporaryFolder folder;
    ASSERT_TRUE(save_checkpoint(folder / "checkpoint", {}, manifest, arena, {}));
    ASSERT_TRUE(write_weights(folder / "checkpoint", folder.path()));
    Arena back(manifest, 2);
    const auto read = read_weights(folder.path(), manifest, back);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_TRUE(std::equal(arena.parameters().begin(), arena.parameters().end(), back.parameters().begin()));
    EXPECT_EQ(back.slot(0)[1], 0.0F);

    Manifest other = manifest;
    other.add_parameter("model.c", {1}, false);
    Arena larger(other, 2);
    EXPECT_THAT(read_weights(folder.path(), other, larger).error().message, HasSubstr("lacks the tensor model.c"));
    Manifest reshaped;
    reshaped.add_parameter("model.b", {4}, true);
    reshaped.add_parameter("model.a", {3}, false);
    EXPECT_THAT(read_weights(folder.path(), reshaped, back).error().message, HasSubstr("[2,2]"));
}

}  // namespace
}  // namespace chaos::state
