#include "infer/quantize.h"

#include "infer/model_text.h"
#include "infer/models.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace chaos::infer {
namespace {

using chaos::test::TemporaryFolder;
using ::testing::HasSubstr;

ModelFile quantized(const std::filesystem::path& from, const std::filesystem::path& to, StoredType type) {
    Pool pool(2);
    auto file = ModelFile::open(from);
    EXPECT_TRUE(file) << file.error().message;
    const auto done = quantize(*file, to, type, pool, {});
    EXPECT_TRUE(done) << done.error().message;
    auto written = ModelFile::open(to);
    EXPECT_TRUE(written) << written.error().message;
    return std::move(*written);
}

TEST(Quantize, WritesWhatLlamaCppWrites) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    struct Case {
        const char* model;
        const char* file;
        StoredType type;
    };
    for (const Case& each : {Case{"llama2-tiny", "llama2-tiny-q8_0", StoredType::q8_0},
                             {"llama2-tiny", "llama2-tiny-q4_0", StoredType::q4_0},
                             {"llama3-shakespeare", "llama3-shakespeare-f16", StoredType::f16},
                             {"qwen3-tiny", "qwen3-tiny-q8_0", StoredType::q8_0},
                             {"qwen3-tiny", "qwen3-tiny-f16", StoredType::f16}}) {
        const ModelFile ours = quantized(test::folder(each.model), folder / "ours.gguf", each.type);
        const auto theirs = Gguf::open(test::gguf(each.file));
        ASSERT_TRUE(theirs) << theirs.error().message;
        for (const auto& [name, tensor] : theirs->tensors()) {
            const auto& written = ours.gguf()->tensors();
            ASSERT_TRUE(written.contains(name)) << each.file << " " << name;
            const Gguf::Tensor& mine = written.at(name);
            EXPECT_EQ(mine.extents, tensor.extents) << each.file << " " << name;
            // In files of Q4_0 llama.cpp keeps the head finer.
            if (name == "output.weight" && each.type == StoredType::q4_0) continue;
            EXPECT_EQ(mine.type, tensor.type) << each.file << " " << name;
            if (name == "rope_freqs.weight") continue;
            EXPECT_EQ(mine.bytes.size(), tensor.bytes.size());
            EXPECT_EQ(std::memcmp(mine.bytes.data(), tensor.bytes.data(), tensor.bytes.size()), 0)
                << each.file << " " << name;
        }
        for (const auto& [key, value] : theirs->metadata()) {
            if (key == "general.name" || key == "general.size_label" || key == "tokenizer.ggml.scores") continue;
            ASSERT_TRUE(ours.gguf()->metadata().contains(key)) << each.file << " " << key;
            EXPECT_EQ(ours.gguf()->metadata().at(key).content, value.content) << each.file << " " << key;
            EXPECT_EQ(ours.gguf()->metadata().at(key).type, value.type) << each.file << " " << key;
        }
    }
}

TEST(Quantize, TheTokenizerComesAlong) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    for (const char* name : {"llama2-tiny", "qwen2-tiny"}) {
        const ModelFile file = quantized(test::folder(name), folder / "a.gguf", StoredType::q8_0);
        const auto tokenizer = tokenizer_of(file);
        ASSERT_TRUE(tokenizer) << tokenizer.error().message;
        const nlohmann::json wanted = test::expected(name);
        for (const auto& each : wanted["cases"])
            EXPECT_EQ(tokenizer->encode(each["prompt"].get<std::string>()), each["ids"].get<test::Ids>());
    }
}

TEST(Quantize, AGgufFileBecomesAnother) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    const ModelFile direct = quantized(test::folder("llama2-tiny"), folder / "a.gguf", StoredType::q4_0);
    const ModelFile twice = quantized(test::gguf("llama2-tiny-f32"), folder / "b.gguf", StoredType::q4_0);
    for (const TensorShape& shape : tensors_of(direct.config())) {
        const auto one = direct.tensor(shape.name).bytes;
        const auto other = twice.tensor(shape.name).bytes;
        ASSERT_EQ(one.size(), other.size()) << shape.name;
        EXPECT_EQ(std::memcmp(one.data(), other.data(), one.size()), 0) << shape.name;
    }
    EXPECT_EQ(direct.config().rope.theta, twice.config().rope.theta);
}

TEST(Quantize, NeverOverwritesItsSource) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    quantized(test::folder("qwen2-tiny"), folder / "a.gguf", StoredType::f16);
    Pool pool(1);
    const auto file = ModelFile::open(folder / "a.gguf");
    EXPECT_THAT(quantize(*file, folder / "a.gguf", StoredType::q4_0, pool, {}).error().message,
                HasSubstr("is the model itself"));
}

}  // namespace
}  // namespace chaos::infer
