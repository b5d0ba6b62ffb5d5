#include "run/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::run::test {
namespace {

using ::testing::ElementsAre;

std::string model_error(const std::string& lines) {
    return error_of("[model]\n" + lines + "\n" + text_data);
}

TEST(Settle, FillsInWhatFollowsFromOtherKeys) {
    const Llama llama = parsed("[model]\nwidth = 320\nheads = 5\n" + text_data + "context = 77").model.llama;
    EXPECT_EQ(llama.kv_heads, 5);
    EXPECT_EQ(llama.head_width, 64);
    EXPECT_EQ(llama.ffn, 864);  // 8/3 of 320 is 853.3
    EXPECT_EQ(llama.max_context, 77);
    EXPECT_EQ(llama.vocab, 0);
}

TEST(Settle, KeepsWhatIsGiven) {
    const Llama llama = parsed(
                            "[model]\nwidth = 320\nheads = 4\nkv_heads = 2\nhead_width = 6\nffn = 9\nvocab = 300\n"
                            "max_context = 999\n" +
                            text_data)
                            .model.llama;
    EXPECT_EQ(llama.kv_heads, 2);
    EXPECT_EQ(llama.head_width, 6);
    EXPECT_EQ(llama.ffn, 9);
    EXPECT_EQ(llama.max_context, 999);
    EXPECT_EQ(llama.vocab, 300);
}

TEST(Settle, FeedForwardIsEightThirdsInMultiplesOf32) {
    EXPECT_EQ(parsed("[model]\nwidth = 12\nheads = 2\n" + text_data).model.llama.ffn, 32);
    EXPECT_EQ(parsed("[model]\nwidth = 256\n" + text_data).model.llama.ffn, 704);
    EXPECT_EQ(parsed("[model]\nwidth = 65536\nheads = 16\n" + text_data).model.llama.ffn, 174784);
}

TEST(Settle, HeadsFitTheWidth) {
    EXPECT_EQ(model_error("width = 250"),
              "run.toml:2: model.heads (4) must divide model.width (250) unless model.head_width is set");
    EXPECT_EQ(model_error("width = 250\nhead_width = 64"), "");
    EXPECT_EQ(model_error("width = 256\nheads = 6\nkv_heads = 4"),
              "run.toml:4: model.kv_heads (4) must divide model.heads (6)");
    EXPECT_EQ(model_error("kv_heads = 8"), "run.toml:2: model.kv_heads (8) must divide model.heads (4)");
    EXPECT_EQ(model_error("head_width = 7"), "run.toml:2: model.head_width (7) must be even, because RoPE turns pairs");
    EXPECT_EQ(model_error("width = 20"),
              "run.toml:2: model.width / model.heads (5) must be even, because RoPE turns pairs");
    EXPECT_EQ(model_error("width = 65536"), "run.toml:2: model.width / model.heads (16384) must be at most 4096");
}

TEST(Settle, ContextFitsTheModel) {
    EXPECT_EQ(model_error("max_context = 100"),
              "run.toml:2: model.max_context (100) must be at least data.context (128)");
}

TEST(Settle, RopeFactorsAreOrdered) {
    EXPECT_EQ(model_error("[model.rope]\nkind = \"llama3\"\nlow_frequency_factor = 4"),
              "run.toml:4: model.rope.low_frequency_factor (4) must be less than model.rope.high_frequency_factor (4)");
}

TEST(Settle, TorchScriptNeedsItsFile) {
    EXPECT_EQ(model_error("kind = \"torchscript\""),
              "run.toml:2: model.path is missing: model.kind = \"torchscript\" needs it");
}

TEST(Settle, DataFitsTheModel) {
    EXPECT_EQ(error_of("[data]\nkind = \"cifar10\"\nfiles = \"a\""),
              "run.toml:2: data.kind must be text or synthetic for model.kind = \"llama\", not cifar10");
    EXPECT_EQ(model_error("kind = \"mlp\""),
              "run.toml:2: data.kind must be idx, cifar10 or synthetic for model.kind = \"mlp\", not text");
}

TEST(Settle, DataNeedsFiles) {
    EXPECT_EQ(error_of(""), "run.toml: data.files is missing: data.kind = \"text\" needs it");
    const std::string mlp = "[model]\nkind = \"mlp\"\n";
    EXPECT_EQ(error_of(mlp + "[data]\nkind = \"cifar10\""),
              "run.toml: data.files is missing: data.kind = \"cifar10\" needs it");
    EXPECT_EQ(error_of(mlp + "[data]\nkind = \"idx\""),
              "run.toml: data.files is missing: data.kind = \"idx\" needs it");
    EXPECT_EQ(error_of(mlp + "[data]\nkind = \"idx\"\nfiles = \"a\""),
              "run.toml: data.labels is missing: data.kind = \"idx\" needs it");
    EXPECT_EQ(error_of(mlp + "[data]\nkind = \"idx\"\nfiles = [\"a\", \"b\"]\nlabels = \"c\""),
              "run.toml:6: data.labels must name one file for each of data.files: 1 instead of 2");
}

TEST(Settle, HeldOutIsAShareOrANumberOfSamples) {
    for (const char* value : {"0", "0.999", "1", "12.0", "1000000000"}) {
        EXPECT_EQ(error_of(text_data + "held_out = " + value), "");
    }
    EXPECT_EQ(error_of(text_data + "held_out = 1.5"),
              "run.toml:3: data.held_out must be a share below 1 or a whole number of samples, not 1.5");
}

TEST(Settle, SyntheticSamplesFollowTheModel) {
    const Data tokens = parsed(image_data + "context = 16").data;
    EXPECT_TRUE(tokens.tokens);
    EXPECT_THAT(tokens.shape, ElementsAre(16));
    const Data values = parsed("[model]\nkind = \"mlp\"\n" + image_data + "shape = [7]").data;
    EXPECT_FALSE(values.tokens);
    EXPECT_THAT(values.shape, ElementsAre(7));
}

TEST(Settle, SyntheticShapesFitTheModel) {
    EXPECT_EQ(error_of("[model]\nkind = \"alexnet\"\n" + image_data + "shape = [7]"),
              "run.toml:5: data.shape must be [channels, height, width] for model.kind = \"alexnet\"");
    EXPECT_EQ(error_of("[model]\nkind = \"mlp\"\n" + image_data + "shape = [16777216, 16777216, 16777216, 16777216]"),
              "run.toml:5: data.shape must describe at most 16777216 values");
}

TEST(Settle, AccumulateDividesTheBatch) {
    EXPECT_EQ(error_of(text_data + "[train]\nbatch = 10\naccumulate = 4"),
              "run.toml:5: train.accumulate (4) must divide train.batch (10)");
}

TEST(Settle, WarmUpEndsBeforeACosineDoes) {
    EXPECT_EQ(error_of(text_data + "[schedule]\nkind = \"cosine\"\nwarmup_steps = 1000"),
              "run.toml:5: schedule.warmup_steps (1000) must be less than train.steps (1000)");
    EXPECT_EQ(error_of(text_data + "[schedule]\nwarmup_steps = 1000"), "");
}

}  // namespace
}  // namespace chaos::run::test
