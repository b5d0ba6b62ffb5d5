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

// A run whose text data, if it asks for any, is 3,000 random letters.
inline run::Run parse(const test::TemporaryFolder& folder, const std::string& text) {
    std::string corpus;
    for (std::uint64_t i = 0; i < 3000; ++i) corpus += static_cast<char>('a' + random_bits(1, 1, i) % 7);
    folder.write("text.txt", corpus);
    folder.write("letters.json", letters_tokenizer);
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
