#include "infer/model_file.h"

#include "base/file.h"
#include "shared.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace chaos::infer {
namespace {

using test::TemporaryFolder;
using ::testing::HasSubstr;

std::vector<float> values_of(const ModelFile& file, const TensorShape& shape) {
    const StoredTensor& tensor = file.tensor(shape.name);
    if (shape.vector) return stored_vector(tensor);
    std::vector<float> values(tensor.rows * tensor.columns);
    for (std::uint64_t row = 0; row < tensor.rows; ++row)
        decode_row(tensor.type, stored_row(tensor, row),
                   std::span(values).subspan(row * tensor.columns, tensor.columns));
    return values;
}

// How far two files of one model are apart: the largest distance over the root of the mean square, of all tensors.
double distance(const ModelFile& one, const ModelFile& other) {
    double worst = 0.0;
    for (const TensorShape& shape : tensors_of(one.config())) {
        const auto a = values_of(one, shape);
        const auto b = values_of(other, shape);
        double square = 0.0;
        double difference = 0.0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            square += static_cast<double>(a[i]) * a[i];
            difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
        }
        worst = std::max(worst, std::sqrt(difference / square));
    }
    return worst;
}

TEST(ModelFile, GgufHoldsTheSameWeightsAsTheFolderItWasMadeFrom) {
    CHAOS_NEED_SHARED("models");
    struct Pair {
        const char* folder;
        const char* file;
        double distance;
    };
    for (const Pair& pair : {Pair{"llama2-tiny", "llama2-tiny-f32", 0.0},
                             {"llama2-tiny", "llama2-tiny-q8_0", 0.01},
                             {"llama2-tiny", "llama2-tiny-q4_0", 0.11},
                             {"llama3-shakespeare", "llama3-shakespeare-f16", 1e-4},
                             {"llama3-shakespeare", "llama3-shakespeare-q5_k_m", 0.04},
                             {"llama3-shakespeare", "llama3-shakespeare-q4_k_m", 0.08},
                             {"qwen3-tiny", "qwen3-tiny-f16", 0.0},
                             {"qwen3-tiny", "qwen3-tiny-q8_0", 0.01},
                             {"qwen3-tiny", "qwen3-tiny-q4_0", 0.11}}) {
        const auto folder = ModelFile::open(test::shared("models") / pair.folder);
        ASSERT_TRUE(folder) << folder.error().message;
        const auto file = ModelFile::open(test::shared("models") / "gguf" / (std::string(pair.file) + ".gguf"));
        ASSERT_TRUE(file) << file.error().message;
        EXPECT_LE(distance(*folder, *file), pair.distance) << pair.file;
        const Config& a = folder->config();
        const Config& b = file->config();
        EXPECT_EQ(a.kind, b.kind);
        EXPECT_EQ(a.max_context, b.max_context);
        EXPECT_FLOAT_EQ(static_cast<float>(a.norm_epsilon), static_cast<float>(b.norm_epsilon));
        EXPECT_EQ(a.eos_tokens, b.eos_tokens);
        const auto steps = angle_steps(b);
        for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_FLOAT_EQ(angle_steps(a)[i], steps[i]);
    }
}

TEST(ModelFile, RowsInPairsComeBackInOrder) {
    // Heads of 4 rows: 0, 2, 1, 3 lie where 0, 1, 2, 3 are asked for.
    EXPECT_EQ(paired_row(0, 4), 0U);
    EXPECT_EQ(paired_row(1, 4), 2U);
    EXPECT_EQ(paired_row(2, 4), 1U);
    EXPECT_EQ(paired_row(7, 4), 7U);
}

TEST(ModelFile, WhatIsNoModelIsRefused) {
    const TemporaryFolder folder;
    EXPECT_THAT(ModelFile::open(folder / "nothing").error().message, HasSubstr("does not exist"));
    EXPECT_THAT(ModelFile::open(folder.path()).error().message, HasSubstr("neither config.json nor a .gguf file"));
    EXPECT_THAT(ModelFile::open(folder.write("a.txt", "text")).error().message, HasSubstr("is no model"));
    folder.write("a.gguf");
    folder.write("b.gguf");
    EXPECT_THAT(ModelFile::open(folder.path()).error().message, HasSubstr("several .gguf files"));
}

// A llama of one layer with the given tensors more or less.
Result<ModelFile> open_with(const TemporaryFolder& folder, const std::string& without, const std::string& extra) {
    folder.write("config.json", R"({"model_type":"llama","vocab_size":8,"hidden_size":4,"num_hidden_layers":1,
        "num_attention_heads":2,"intermediate_size":6})");
    const auto config = read_config(folder.path());
    const std::vector<float> zeros(64);
    std::vector<state::FloatTensor> tensors;
    const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t columns, bool vector) {
        const auto shape = vector ? std::vector{columns} : std::vector{rows, columns};
        tensors.push_back({name, shape, std::span(zeros).first(static_cast<std::size_t>(rows * columns))});
    };
    for (const TensorShape& shape : tensors_of(*config))
        if (shape.name != without)
            add(shape.name, static_cast<std::int64_t>(shape.rows), static_cast<std::int64_t>(shape.columns),
                shape.vector);
    if (!extra.empty()) add(extra, 1, 4, true);
    EXPECT_TRUE(state::write_safetensors(folder / "model.safetensors", tensors, {}));
    return ModelFile::open(folder.path());
}

TEST(ModelFile, NoTensorIsMissingAndNoneTooMany) {
    const TemporaryFolder folder;
    EXPECT_TRUE(open_with(folder, "", ""));
    EXPECT_TRUE(open_with(folder, "", "model.layers.0.self_attn.rotary_emb.inv_freq"));
    EXPECT_THAT(open_with(folder, "lm_head.weight", "").error().message, HasSubstr("lacks the tensor lm_head.weight"));
    EXPECT_THAT(open_with(folder, "", "model.layers.0.self_attn.q_proj.bias").error().message,
                HasSubstr("q_proj.bias is not part of such a llama model"));
    EXPECT_THAT(
        open_with(folder, "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight").error().message,
        HasSubstr("up_proj.weight is 1 x 4, its configuration asks for 6 x 4"));
}

}  // namespace
}  // namespace chaos::infer
