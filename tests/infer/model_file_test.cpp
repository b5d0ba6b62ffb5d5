#include "infer/model_file.h"

#include "base/file.h"
#include "infer/model_text.h"
#include "infer/small_model.h"
#include "shared.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace chaos::infer {
namespace {

using chaos::test::shared;
using chaos::test::TemporaryFolder;
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
        const auto folder = ModelFile::open(shared("models") / pair.folder);
        ASSERT_TRUE(folder) << folder.error().message;
        const auto file = ModelFile::open(shared("models") / "gguf" / (std::string(pair.file) + ".gguf"));
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

// What stands in the way of using a model; nothing, where nothing does.
std::string problem(const std::filesystem::path& path) {
    const auto file = ModelFile::open(path);
    if (!file) return file.error().message;
    if (const auto tokenizer = tokenizer_of(*file); !tokenizer) return tokenizer.error().message;
    if (const auto chat = chat_format_of(*file); !chat) return chat.error().message;
    return "";
}

TEST(ModelFile, ACutFileIsAnErrorThatNamesIt) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    const auto cuts = [](std::uint64_t size) {
        // The last bytes may be padding, or the end of a line.
        return std::vector<std::uint64_t>{0, 1, 4, 7, 8, 20, 100, 1000, size / 3, size / 2, size / 10 * 9, size - 40};
    };
    for (const auto& entry : std::filesystem::directory_iterator(shared("models") / "gguf")) {
        const std::string content = read_file(entry.path()).value();
        for (const std::uint64_t size : cuts(content.size())) {
            const auto path = folder.write("cut.gguf", content.substr(0, size));
            EXPECT_THAT(problem(path), HasSubstr(path.string())) << entry.path() << " cut to " << size;
        }
    }
    for (const char* model : {"llama2-tiny", "llama3-shakespeare", "qwen2-tiny", "qwen3-tiny"}) {
        const std::filesystem::path copy = folder / model;
        std::filesystem::copy(shared("models") / model, copy);
        std::filesystem::permissions(copy, std::filesystem::perms::owner_all);
        ASSERT_EQ(problem(copy), "");
        for (const auto& entry : std::filesystem::directory_iterator(shared("models") / model)) {
            const std::string name = entry.path().filename();
            // A template that is cut may still be one.
            if (name == "expected.json" || name == "chat_template.jinja") continue;
            const std::string content = read_file(entry.path()).value();
            std::filesystem::remove(copy / name);
            for (const std::uint64_t size : cuts(content.size())) {
                if (size >= content.size()) continue;
                folder.write(std::string(model) + "/" + name, content.substr(0, size));
                EXPECT_THAT(problem(copy), HasSubstr((copy / name).string())) << "cut to " << size;
            }
            folder.write(std::string(model) + "/" + name, content);
        }
    }
}

std::string small_problem(const TemporaryFolder& folder, const GgufMetadata& metadata,
                          const std::vector<GgufOutput>& tensors) {
    EXPECT_TRUE(write_gguf(folder / "small.gguf", metadata, tensors));
    return problem(folder / "small.gguf");
}

TEST(ModelFile, LyingMetadataIsNamed) {
    const TemporaryFolder folder;
    const Config config = test::small_config("llama", 4);
    const GgufMetadata metadata = test::small_metadata(config, false);
    const auto tensors = test::small_tensors(config, StoredType::f32);
    ASSERT_EQ(small_problem(folder, metadata, tensors), "");
    const auto with = [&](const std::string& key, GgufValue value) {
        GgufMetadata lie = metadata;
        lie[key] = std::move(value);
        return small_problem(folder, lie, tensors);
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double infinity = std::numeric_limits<double>::infinity();
    for (const std::string key :
         {"llama.block_count", "llama.embedding_length", "llama.attention.head_count", "llama.attention.head_count_kv",
          "llama.attention.key_length", "llama.feed_forward_length", "llama.context_length"}) {
        EXPECT_THAT(with(key, GgufValue::of_u32(0)), HasSubstr(key + " must be from 1 to")) << key;
        EXPECT_THAT(with(key, {GgufType::i64, {}, std::int64_t{-1}}), HasSubstr(key + " must be from 1 to"));
        EXPECT_THAT(with(key, {GgufType::i64, {}, std::int64_t{1} << 62}), HasSubstr(key + " must be from 1 to"));
        EXPECT_THAT(with(key, GgufValue::of_f32(nan)), HasSubstr(key + " is not one whole number"));
        EXPECT_THAT(with(key, GgufValue::of_text("8")), HasSubstr(key + " is not one whole number"));
        EXPECT_THAT(with(key, GgufValue::of_i32s({2})), HasSubstr(key + " is not one whole number"));
        GgufMetadata without = metadata;
        without.erase(key);
        if (key.ends_with("head_count_kv") || key.ends_with("key_length")) continue;  // these follow from others
        EXPECT_THAT(small_problem(folder, without, tensors), HasSubstr("lacks the metadata " + key));
    }
    EXPECT_THAT(with("llama.attention.head_count_kv", GgufValue::of_u32(3)), HasSubstr("no multiple of 3"));
    EXPECT_THAT(with("llama.attention.key_length", GgufValue::of_u32(3)), HasSubstr("must be even, not 3"));
    EXPECT_THAT(with("llama.attention.head_count", GgufValue::of_u32(4)), HasSubstr("its configuration asks for"));
    EXPECT_THAT(with("llama.block_count", GgufValue::of_u32(2)), HasSubstr("lacks the tensor blk.1."));
    EXPECT_THAT(with("llama.embedding_length", GgufValue::of_u32(8)), HasSubstr("its configuration asks for"));
    EXPECT_THAT(with("llama.feed_forward_length", GgufValue::of_u32(8)), HasSubstr("its configuration asks for"));
    for (const double epsilon : {0.0, -1.0, 2.0, nan, infinity})
        EXPECT_THAT(with("llama.attention.layer_norm_rms_epsilon", GgufValue::of_f32(epsilon)), HasSubstr("epsilon"));
    for (const std::string key : {"llama.rope.freq_base", "llama.rope.scaling.factor"})
        for (const double value : {0.0, -1.0, 1e-10, nan, infinity})
            EXPECT_THAT(with(key, GgufValue::of_f32(value)), HasSubstr("RoPE parameters make no sense")) << key;
    EXPECT_THAT(with("llama.rope.scaling.factor", GgufValue::of_f32(0.1)), HasSubstr("a factor is too small"));
    EXPECT_THAT(with("llama.rope.scaling.type", GgufValue::of_text("yarn")),
                HasSubstr("\"yarn\", which is not supported"));
    EXPECT_THAT(with("llama.rope.dimension_count", GgufValue::of_u32(1)), HasSubstr("RoPE on a part of a head"));
    EXPECT_THAT(with("llama.attention.value_length", GgufValue::of_u32(1)), HasSubstr("values narrower than keys"));
    EXPECT_THAT(with("llama.expert_count", GgufValue::of_u32(8)), HasSubstr("experts, which is not supported"));
    EXPECT_THAT(with("general.architecture", GgufValue::of_text("mamba")),
                HasSubstr("architecture 'mamba' is not supported"));
    EXPECT_THAT(with("general.architecture", GgufValue::of_u32(1)), HasSubstr("general.architecture is not a text"));
}

TEST(ModelFile, LyingVocabulariesAreNamed) {
    const TemporaryFolder folder;
    const Config config = test::small_config("llama", 4);
    const auto tensors = test::small_tensors(config, StoredType::f32);
    const auto with = [&](const std::string& key, GgufValue value) {
        GgufMetadata lie = test::small_metadata(config, false);
        lie["tokenizer.ggml." + key] = std::move(value);
        return small_problem(folder, lie, tensors);
    };
    EXPECT_THAT(with("model", GgufValue::of_text("bert")), HasSubstr("'bert', which is not supported"));
    EXPECT_THAT(with("tokens", GgufValue::of_texts({})), HasSubstr("tokens is empty"));
    EXPECT_THAT(with("tokens", GgufValue::of_i32s({1})), HasSubstr("tokens is no list of texts"));
    EXPECT_THAT(with("tokens", GgufValue::of_texts(std::vector<std::string>(8, "\xFF"))), HasSubstr("not UTF-8"));
    EXPECT_THAT(with("token_type", GgufValue::of_i32s({1, 2})), HasSubstr("has 2 entries for 8 tokens"));
    EXPECT_THAT(with("scores", GgufValue::of_f32s({1.0})), HasSubstr("scores"));
    for (const char* key : {"bos_token_id", "eos_token_id"}) {
        EXPECT_THAT(with(key, GgufValue::of_u32(8)), HasSubstr("token 8 is not in the vocabulary"));
        EXPECT_THAT(with(key, {GgufType::i64, {}, std::int64_t{-1}}), HasSubstr("is not in the vocabulary"));
        EXPECT_THAT(with(key, GgufValue::of_text("<s>")), HasSubstr("is not one whole number"));
    }
    EXPECT_THAT(with("unknown_token_id", GgufValue::of_u32(4'000'000'000)), HasSubstr("unknown_token_id"));
    GgufMetadata lie = test::small_metadata(config, false);
    lie["tokenizer.chat_template"] = GgufValue::of_text("{% for %}");
    EXPECT_THAT(small_problem(folder, lie, tensors), HasSubstr("small.gguf"));
}

TEST(ModelFile, LyingTensorsAreNamed) {
    const TemporaryFolder folder;
    const Config config = test::small_config("llama", 4);
    const GgufMetadata metadata = test::small_metadata(config, false);
    const auto tensors = test::small_tensors(config, StoredType::f32);
    const auto zeros = [](std::size_t floats) {
        return [floats](const Sink& sink) { return sink(std::vector<std::byte>(4 * floats)); };
    };
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        auto without = tensors;
        without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_THAT(small_problem(folder, metadata, without), HasSubstr("lacks the tensor " + tensors[i].name));
        for (const std::vector<std::uint64_t>& extents :
             {std::vector<std::uint64_t>{4, 4, 4}, {64}, {2, 32}, {5, 1'000}}) {
            auto wrong = tensors;
            std::uint64_t elements = 1;
            for (const std::uint64_t extent : extents) elements *= extent;
            wrong[i].extents = extents;
            wrong[i].write = zeros(elements);
            EXPECT_THAT(small_problem(folder, metadata, wrong), HasSubstr(tensors[i].name));
        }
    }
    auto more = tensors;
    more.push_back({"blk.0.ffn_gate_exps.weight", StoredType::f32, {4, 4}, zeros(16)});
    EXPECT_THAT(small_problem(folder, metadata, more), HasSubstr("ffn_gate_exps.weight is not part of such a llama"));
    more.back() = {"rope_freqs.weight", StoredType::f32, {4}, zeros(4)};
    EXPECT_THAT(small_problem(folder, metadata, more), HasSubstr("rope_freqs.weight must be F32 with 1 values"));
    more.back() = {"rope_freqs.weight", StoredType::f32, {1}, zeros(1)};
    EXPECT_THAT(small_problem(folder, metadata, more), HasSubstr("RoPE parameters make no sense"));
}

TEST(ModelFile, PartsOfAGgufFileAreOneModel) {
    const TemporaryFolder folder;
    const Config config = test::small_config("llama", 4);
    const auto tensors = test::small_tensors(config, StoredType::f32);
    GgufMetadata first = test::small_metadata(config, false);
    GgufMetadata second;
    test::add_split(first, 0, 2, tensors.size());
    test::add_split(second, 1, 2, tensors.size());
    ASSERT_TRUE(write_gguf(folder / "m-00001-of-00002.gguf", first, std::span(tensors).first(4)));
    ASSERT_TRUE(write_gguf(folder / "m-00002-of-00002.gguf", second, std::span(tensors).subspan(4)));
    for (const auto& path : {folder / "m-00001-of-00002.gguf", folder.path()}) {
        const auto file = ModelFile::open(path);
        ASSERT_TRUE(file) << file.error().message;
        EXPECT_EQ(file->weight_paths().size(), 2U);
        EXPECT_EQ(problem(path), "");
    }
    EXPECT_THAT(problem(folder / "m-00002-of-00002.gguf"), HasSubstr("name the first of them"));
}

}  // namespace
}  // namespace chaos::infer
