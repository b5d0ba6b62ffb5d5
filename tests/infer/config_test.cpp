#include "infer/config.h"

#include "infer/small_model.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace chaos::infer {
namespace {

using chaos::test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string config_of(const std::string& kind, const std::string& more = "") {
    return R"({"model_type":")" + kind + R"(","vocab_size":10,"hidden_size":32,"num_hidden_layers":3,
        "num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":16,"max_position_embeddings":512)" +
           more + "}";
}

Result<Config> read(const std::string& config, const std::string& generation = "") {
    const TemporaryFolder folder;
    folder.write("config.json", config);
    if (!generation.empty()) folder.write("generation_config.json", generation);
    return read_config(folder.path());
}

std::string refusal(const std::string& config) {
    const auto config_read = read(config);
    return config_read ? "accepted" : config_read.error().message;
}

TEST(Config, KindsDifferInDetails) {
    const auto llama = read(config_of("llama"));
    ASSERT_TRUE(llama) << llama.error().message;
    EXPECT_EQ(llama->head_width, 8);
    EXPECT_EQ(llama->kv_width(), 16);
    EXPECT_FALSE(llama->qkv_bias || llama->head_norm || llama->tied_head);
    const auto biased = read(config_of("llama", R"(,"attention_bias":true,"mlp_bias":true)"));
    EXPECT_TRUE(biased->qkv_bias && biased->output_bias && biased->ffn_bias);
    const auto qwen2 = read(config_of("qwen2", R"(,"tie_word_embeddings":true)"));
    EXPECT_TRUE(qwen2->qkv_bias && qwen2->tied_head);
    EXPECT_FALSE(qwen2->output_bias);
    const auto qwen3 = read(config_of("qwen3"));
    EXPECT_TRUE(qwen3->head_norm);
    EXPECT_FALSE(qwen3->qkv_bias);
    EXPECT_EQ(qwen3->head_width, 128);
}

TEST(Config, RopeStandsInOldAndNewPlaces) {
    EXPECT_EQ(read(config_of("llama"))->rope.theta, 10000.0);
    EXPECT_EQ(read(config_of("llama", R"(,"rope_theta":5e5,"rope_scaling":null)"))->rope.theta, 5e5);
    const auto old_linear =
        read(config_of("llama", R"(,"rope_theta":20000,"rope_scaling":{"type":"linear","factor":4})"));
    ASSERT_TRUE(old_linear) << old_linear.error().message;
    EXPECT_EQ(old_linear->rope.linear_factor, 4.0);
    EXPECT_EQ(old_linear->rope.theta, 20000.0);
    const auto new_linear =
        read(config_of("llama", R"(,"rope_parameters":{"rope_type":"linear","factor":2,"rope_theta":30000})"));
    EXPECT_EQ(new_linear->rope.linear_factor, 2.0);
    EXPECT_EQ(new_linear->rope.theta, 30000.0);
    EXPECT_EQ(angle_steps(*new_linear)[0], 0.5F);
}

TEST(Config, Llama3StretchesSlowFrequenciesOnly) {
    const auto config =
        read(config_of("llama", R"(,"rope_parameters":{"rope_type":"llama3","factor":8,"rope_theta":10000,
        "low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":256})"));
    ASSERT_TRUE(config) << config.error().message;
    const auto& divisors = config->rope.divisors;
    ASSERT_EQ(divisors.size(), 4U);
    EXPECT_EQ(divisors[0], 1.0F);
    // Frequency 0.1: 4.07 turns in 256 positions. Frequency 0.01: 0.407 turns.
    EXPECT_EQ(divisors[1], 1.0F);
    EXPECT_EQ(divisors[2], 8.0F);
    EXPECT_EQ(divisors[3], 8.0F);
    const auto between = read(config_of("llama", R"(,"rope_scaling":{"rope_type":"llama3","factor":8,
        "low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":128})"));
    const double smooth = (128 * 0.1 / (2 * M_PI) - 1) / 3;
    EXPECT_NEAR(between->rope.divisors[1], 1 / ((1 - smooth) / 8 + smooth), 1e-6);
}

TEST(Config, TheContextEndsWhereASlidingWindowWouldMatter) {
    const auto context = [](const std::string& kind, const std::string& more) {
        return read(config_of(kind, more))->max_context;
    };
    EXPECT_EQ(context("mistral", R"(,"sliding_window":128)"), 128);
    EXPECT_EQ(context("mistral", R"(,"sliding_window":4096)"), 512);
    EXPECT_EQ(context("mistral", R"(,"sliding_window":null)"), 512);
    EXPECT_EQ(context("llama", R"(,"sliding_window":128)"), 512);
    EXPECT_EQ(context("qwen2", R"(,"sliding_window":128,"use_sliding_window":false)"), 512);
    EXPECT_EQ(context("qwen2", R"(,"sliding_window":128,"use_sliding_window":true)"), 128);
    EXPECT_EQ(context("llama", R"(,"max_position_embeddings":10485760)"), 1 << 20);
    // What transformers means where a file does not say it.
    const std::string longer = R"(,"max_position_embeddings":32768)";
    EXPECT_EQ(context("mistral", longer), 4096);
    EXPECT_EQ(context("mistral", longer + R"(,"sliding_window":null)"), 32768);
    for (const char* kind : {"qwen2", "qwen3"}) {
        EXPECT_EQ(context(kind, longer), 32768);
        EXPECT_EQ(context(kind, longer + R"(,"use_sliding_window":true)"), 4096);
        EXPECT_EQ(context(kind, longer + R"(,"use_sliding_window":true,"sliding_window":null)"), 32768);
    }
    EXPECT_EQ(context("llama", longer), 32768);
}

TEST(Config, EndTokensComeFromBothFiles) {
    const auto config = read(config_of("llama", R"(,"bos_token_id":1,"eos_token_id":2)"), R"({"eos_token_id":[2,3]})");
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->bos_token, 1);
    EXPECT_THAT(config->eos_tokens, ElementsAre(2, 3));
}

TEST(Config, OfAGgufFileAlsoTheEndOfATurnEndsATextWhateverItsKeysSay) {
    const TemporaryFolder folder;
    const Config config = test::small_config("llama", 32);
    const auto ends = [&](GgufMetadata metadata) {
        EXPECT_TRUE(write_gguf(folder / "a.gguf", metadata, test::small_tensors(config, StoredType::f16)));
        return read_config(Gguf::open(folder / "a.gguf").value()).value().eos_tokens;
    };
    GgufMetadata metadata = test::small_metadata(config, true);
    EXPECT_THAT(ends(metadata), ElementsAre(1));
    metadata["tokenizer.ggml.tokens"] =
        GgufValue::of_texts({"<s>", "</s>", "<|im_end|>", "<|eot_id|>", "<|end|>", "1", "a", "b"});
    metadata["tokenizer.ggml.token_type"] = GgufValue::of_i32s({3, 3, 3, 3, 1, 1, 1, 1});
    EXPECT_THAT(ends(metadata), ElementsAre(1, 2, 3));  // what is no control token is text
    metadata["tokenizer.ggml.eot_token_id"] = GgufValue::of_u32(3);
    EXPECT_THAT(ends(metadata), ElementsAre(1, 3, 2));
    metadata[std::string(end_tokens_key)] = GgufValue::of_i32s({2, 1});
    EXPECT_THAT(ends(metadata), ElementsAre(2, 1));
}

TEST(Config, WhatIsNotSupportedIsRefusedByName) {
    EXPECT_THAT(refusal(config_of("gemma")), HasSubstr("model_type 'gemma' is not supported"));
    EXPECT_THAT(refusal(config_of("llama", R"(,"hidden_act":"gelu")")), HasSubstr("hidden_act is 'gelu'"));
    EXPECT_THAT(refusal(config_of("llama", R"(,"rope_scaling":{"type":"yarn","factor":2})")),
                HasSubstr("rope_scaling is 'yarn', which is not supported (only default, linear or llama3)"));
    EXPECT_THAT(refusal(config_of("llama", R"(,"rope_parameters":{"full_attention":{}})")),
                HasSubstr("full_attention"));
    EXPECT_THAT(refusal(config_of("llama", R"(,"quantization_config":{})")), HasSubstr("quantization_config"));
    EXPECT_THAT(refusal(config_of("llama", R"(,"partial_rotary_factor":0.5)")), HasSubstr("partial_rotary_factor"));
    EXPECT_THAT(refusal(config_of("llama", R"(,"head_dim":7)")), HasSubstr("must be even"));
    EXPECT_THAT(refusal(config_of("llama", R"(,"eos_token_id":10)")), HasSubstr("end token 10"));
    EXPECT_THAT(refusal(R"({"model_type":"llama"})"), HasSubstr("has no 'vocab_size'"));
    EXPECT_THAT(refusal("nonsense"), HasSubstr("is not a JSON object"));
    EXPECT_THAT(refusal(config_of("\\u001b[31m")), HasSubstr("model_type '?[31m' is not supported"));
}

TEST(Config, AbsurdNumbersAreNamed) {
    // A key that stands twice has its last value.
    for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                            "num_key_value_heads", "head_dim", "intermediate_size", "max_position_embeddings"})
        for (const char* value : {"0", "-1", "1e18", "9223372036854775808", "1.5", "\"8\"", "[]", "{}", "true"})
            EXPECT_THAT(refusal(config_of("llama", std::string(R"(,")") + key + R"(":)" + value)), HasSubstr(key))
                << value;
    EXPECT_THAT(refusal(config_of("llama", R"(,"num_key_value_heads":3)")), HasSubstr("no multiple of 3"));
    for (const char* epsilon : {"0", "-1e-6", "1e300"})
        EXPECT_THAT(refusal(config_of("llama", std::string(R"(,"rms_norm_eps":)") + epsilon)), HasSubstr("epsilon"));
    for (const char* number : {"NaN", "Infinity", "1e999"})
        EXPECT_THAT(refusal(config_of("llama", std::string(R"(,"rms_norm_eps":)") + number)),
                    HasSubstr("is not a JSON object"));
    for (const char* theta : {"0", "-1", "1e-3", "1e308"})
        EXPECT_THAT(refusal(config_of("llama", std::string(R"(,"rope_theta":)") + theta)), HasSubstr("make no sense"));
    for (const char* factor : {"0", "-1", "1e-3", "1e308"})
        EXPECT_THAT(
            refusal(config_of("llama", std::string(R"(,"rope_scaling":{"type":"linear","factor":)") + factor + "}")),
            HasSubstr("make no sense"));
    for (const char* table : {"5", "[1]", "\"x\""})
        EXPECT_THAT(refusal(config_of("llama", std::string(R"(,"rope_scaling":)") + table)),
                    HasSubstr("rope_scaling must be an object"));
    for (const char* tokens : {"-1", "[1,\"a\"]", "1e18"})
        EXPECT_THAT(refusal(config_of("llama", std::string(R"(,"eos_token_id":)") + tokens)),
                    HasSubstr("eos_token_id"));
}

}  // namespace
}  // namespace chaos::infer
