// Small runs of every kind of model, for tests of the training loop.
#pragma once

#include "base/random.h"
#include "elastic/trainer.h"
#include "temporary_folder.h"

#include <gtest/gtest.h>

#include <string>

namespace chaos::elastic {

inline constexpr const char* text_llama = R"(
[model]
width = 32
layers = 2
heads = 4
kv_heads = 2
[data]
files = "text.txt"
context = 16
[optimizer]
weight_decay = 0.1
clip_norm = 1.0
[schedule]
kind = "cosine"
warmup_steps = 3
[train]
steps = 20
batch = 6
accumulate = 2
)";

inline constexpr const char* synthetic_mlp = R"(
[model]
kind = "mlp"
hidden = [16]
[data]
kind = "synthetic"
shape = [12]
samples = 100
[optimizer]
kind = "sgd"
learning_rate = 0.05
[train]
steps = 20
batch = 8
)";

inline constexpr const char* synthetic_resnet = R"(
[model]
kind = "resnet18"
norm = "batch"
[data]
kind = "synthetic"
shape = [3, 8, 8]
samples = 64
[train]
steps = 20
batch = 4
)";

inline constexpr const char* synthetic_alexnet = R"(
[model]
kind = "alexnet"
[data]
kind = "synthetic"
shape = [1, 32, 32]
samples = 64
[train]
steps = 20
batch = 2
)";

inline constexpr const char* token_llama = R"(
[model]
width = 32
layers = 1
heads = 2
ffn = 64
[data]
kind = "synthetic"
context = 8
classes = 16
samples = 100
[train]
steps = 20
batch = 6
)";

// Its last images are 2x2, so that BatchNorm can compute a sample alone.
inline constexpr const char* batchnorm_resnet = R"(
[model]
kind = "resnet18"
norm = "batch"
[data]
kind = "synthetic"
shape = [1, 16, 16]
samples = 64
[optimizer]
kind = "sgd"
learning_rate = 0.01
[train]
steps = 20
batch = 4
)";

inline constexpr const char* groupnorm_resnet = R"(
[model]
kind = "resnet18"
[data]
kind = "synthetic"
shape = [1, 16, 16]
samples = 64
[train]
steps = 20
batch = 4
)";

// With dropout.
inline constexpr const char* synthetic_vgg = R"(
[model]
kind = "vgg11"
norm = "batch"
[data]
kind = "synthetic"
shape = [3, 32, 32]
samples = 64
[optimizer]
kind = "sgd"
learning_rate = 0.001
[train]
steps = 20
batch = 3
)";

// Files that parse() writes.
inline constexpr const char* idx_mlp = R"(
[model]
kind = "mlp"
hidden = [16]
[data]
kind = "idx"
files = "images.idx"
labels = "labels.idx"
[optimizer]
clip_norm = 1.0
[train]
steps = 20
batch = 8
)";

inline constexpr const char* cifar10_mlp = R"(
[model]
kind = "mlp"
hidden = [16]
[data]
kind = "cifar10"
files = "cifar.bin"
[train]
steps = 20
batch = 8
)";

// With dropout, so that resuming must also resume its generator.
inline const std::string torchscript_text = "[model]\npath = \"" CHAOS_SOURCE R"(/tests/compute/attention_pytorch2.pt"
[data]
files = "text.txt"
tokenizer = "letters.json"
context = 16
[train]
steps = 20
batch = 6
)";
inline const char* const torchscript = torchscript_text.c_str();

// A tokenizer whose vocabulary is small enough for the file above.
inline constexpr const char* letters_tokenizer = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3,
  "e": 4, "f": 5, "g": 6}, "merges": []}})";

// `count` random characters from `first` on, of so many.
inline std::string random_characters(std::size_t count, unsigned first, unsigned of) {
    std::string characters;
    for (std::uint64_t i = 0; i < count; ++i) characters += static_cast<char>(first + random_bits(1, 1, i) % of);
    return characters;
}

// 60 images of 8x8 pixels, and their labels.
inline void write_idx(const test::TemporaryFolder& folder) {
    using namespace std::string_literals;
    folder.write("images.idx", "\0\0\x08\x03\0\0\0\x3c\0\0\0\x08\0\0\0\x08"s + random_characters(60 * 64, 0, 256));
    folder.write("labels.idx", "\0\0\x08\x01\0\0\0\x3c"s + random_characters(60, 0, 10));
}

inline void write_cifar10(const test::TemporaryFolder& folder) {
    std::string records;
    const std::string pixels = random_characters(40 * 3072, 0, 256);
    for (std::size_t i = 0; i < 40; ++i) records += static_cast<char>(i % 10) + pixels.substr(i * 3072, 3072);
    folder.write("cifar.bin", records);
}

// A run whose text data, if it asks for any, is 3,000 random letters, and whose images are noise.
inline run::Run parse(const test::TemporaryFolder& folder, const std::string& text) {
    folder.write("text.txt", random_characters(3000, 'a', 7));
    folder.write("letters.json", letters_tokenizer);
    write_idx(folder);
    write_cifar10(folder);
    auto run = run::parse_run(text, "run.toml", folder.path());
    EXPECT_TRUE(run) << run.error().message;
    run->train.threads = 2;
    return *run;
}

inline Trainer open(const run::Run& run) {
    auto trainer = Trainer::open(run);
    EXPECT_TRUE(trainer) << trainer.error().message;
    return std::move(trainer).value();
}

inline void take_steps(Trainer& trainer, int steps) {
    for (int i = 0; i < steps; ++i) {
        const auto record = trainer.step();
        ASSERT_TRUE(record) << record.error().message;
    }
}

}  // namespace chaos::elastic
