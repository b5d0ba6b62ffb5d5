#include "infer/quantize.h"

#include "infer/model_text.h"
#include "infer/models.h"
#include "infer/small_model.h"
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

// Changes fields of a JSON file.
void change(const TemporaryFolder& folder, const std::string& name, const nlohmann::json& fields) {
    nlohmann::json file = nlohmann::json::parse(read_file(folder / name).value());
    file.update(fields);
    std::filesystem::remove(folder / name);
    folder.write(name, file.dump());
}

TEST(Quantize, AllEndTokensComeAlong) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    std::filesystem::copy(test::folder("qwen2-tiny"), folder.path(), std::filesystem::copy_options::recursive);
    nlohmann::json added = nlohmann::json::parse(read_file(folder / "tokenizer.json").value())["added_tokens"];
    ASSERT_GE(added.size(), 3U);
    const auto id = [&](std::size_t i) { return added[i]["id"].get<std::int64_t>(); };
    const std::vector<std::int64_t> ends = {id(0), id(1), id(2)};
    std::filesystem::remove(folder / "generation_config.json");
    change(folder, "config.json", {{"eos_token_id", ends}});
    change(folder, "tokenizer_config.json", {{"eos_token", {{"content", added[2]["content"]}}}});
    const ModelFile file = quantized(folder.path(), folder / "a.gguf", StoredType::q8_0);
    EXPECT_EQ(file.config().eos_tokens, ends);
    EXPECT_EQ(file.gguf()->whole("tokenizer.ggml.eos_token_id").value(), ends[2]);
    EXPECT_EQ(file.gguf()->whole("tokenizer.ggml.eot_token_id").value(), ends[0]);
    EXPECT_EQ(file.gguf()->whole("tokenizer.ggml.eom_token_id").value(), ends[1]);
    const ModelFile again = quantized(folder / "a.gguf", folder / "b.gguf", StoredType::q4_0);
    EXPECT_EQ(again.config().eos_tokens, ends);
}

TEST(Quantize, NamedChatTemplatesComeAlong) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    std::filesystem::copy(test::folder("qwen2-tiny"), folder.path(), std::filesystem::copy_options::recursive);
    std::filesystem::remove(folder / "chat_template.jinja");
    const auto named = [](const char* name, const char* source) {
        return nlohmann::json{{"name", name}, {"template", source}};
    };
    change(folder, "tokenizer_config.json",
           {{"chat_template",
             {named("default", "{{ messages[0].content }}"), named("tool_use", "tools: {{ messages[0].content }}")}}});
    const ModelFile file = quantized(folder.path(), folder / "a.gguf", StoredType::q8_0);
    const auto format = chat_format_of(file);
    ASSERT_TRUE(format) << format.error().message;
    ASSERT_TRUE(format->has_value());
    text::Conversation said{.messages = {{{"role", "user"}, {"content", "hello"}}}};
    EXPECT_EQ((*format)->render(said, {}).value(), "hello");
    said.tools = nlohmann::ordered_json::array({nlohmann::ordered_json::object()});
    EXPECT_EQ((*format)->render(said, {}).value(), "tools: hello");
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

TEST(Quantize, NeverOverwritesAPartOfItsSource) {
    const TemporaryFolder folder;
    const Config config = test::small_config("llama", 64);
    const std::vector<GgufOutput> tensors = test::small_tensors(config, StoredType::f16);
    const std::size_t half = tensors.size() / 2;
    GgufMetadata first = test::small_metadata(config, false);
    test::add_split(first, 0, 2, tensors.size());
    ASSERT_TRUE(write_gguf(folder / "a-00001-of-00002.gguf", first, std::span(tensors).first(half)));
    GgufMetadata second;
    test::add_split(second, 1, 2, tensors.size());
    ASSERT_TRUE(write_gguf(folder / "a-00002-of-00002.gguf", second, std::span(tensors).subspan(half)));
    std::filesystem::create_symlink(folder / "a-00002-of-00002.gguf", folder / "link.gguf");
    Pool pool(1);
    const auto file = ModelFile::open(folder / "a-00001-of-00002.gguf");
    ASSERT_TRUE(file) << file.error().message;
    for (const char* name : {"a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "link.gguf"}) {
        const auto done = quantize(*file, folder / name, StoredType::q4_0, pool, {});
        ASSERT_FALSE(done) << name;
        EXPECT_THAT(done.error().message, HasSubstr("is a part of the model itself"));
    }
    const auto done = quantize(*file, folder / "b.gguf", StoredType::q4_0, pool, {});
    EXPECT_TRUE(done) << done.error().message;
}

TEST(Quantize, NeverOverwritesWeightsInItsFolder) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    std::filesystem::copy(test::folder("qwen2-tiny"), folder.path(), std::filesystem::copy_options::recursive);
    Pool pool(1);
    const auto file = ModelFile::open(folder.path());
    ASSERT_TRUE(file) << file.error().message;
    for (const std::filesystem::path& path : file->weight_paths()) {
        const auto done = quantize(*file, path, StoredType::q8_0, pool, {});
        ASSERT_FALSE(done) << path;
        EXPECT_THAT(done.error().message, HasSubstr("the model itself"));
    }
}

TEST(Quantize, WhatNobodyReadsMayBeNestedDeeply) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    std::filesystem::copy(test::folder("qwen2-tiny"), folder.path(), std::filesystem::copy_options::recursive);
    constexpr std::size_t depth = 500'000;
    const std::string nested = std::string(depth, '[') + std::string(depth, ']');
    std::string tokenizer = read_file(folder / "tokenizer.json").value();
    for (const char* part : {"\"pre_tokenizer\"", "\"model\""}) {
        const std::size_t at = tokenizer.find('{', tokenizer.find(part));
        ASSERT_NE(at, std::string::npos) << part;
        tokenizer.insert(at + 1, "\"unknown\":" + nested + ",");
    }
    folder.write("tokenizer.json", tokenizer);
    std::filesystem::remove(folder / "chat_template.jinja");
    folder.write("tokenizer_config.json", "{\"chat_template\":" + nested + "}");
    const ModelFile file = quantized(folder.path(), folder / "a.gguf", StoredType::q8_0);
    const ModelFile unchanged = quantized(test::folder("qwen2-tiny"), folder / "b.gguf", StoredType::q8_0);
    GgufMetadata wanted = unchanged.gguf()->metadata();
    for (const char* key : {"general.name", "tokenizer.chat_template", "tokenizer.huggingface.json"}) wanted.erase(key);
    for (const auto& [key, value] : wanted) EXPECT_EQ(file.gguf()->metadata().at(key).content, value.content) << key;
}

}  // namespace
}  // namespace chaos::infer
