#include "workload.h"

#include "base/file.h"
#include "base/random.h"

#include <sched.h>
#include <cstdlib>

namespace chaos::bench {
namespace {

constexpr std::size_t text_bytes = 1 << 20;

// 10.8 million parameters.
constexpr std::string_view llama = R"(
[model]
kind = "llama"
vocab = 256
width = 384
layers = 6
heads = 6
ffn = 1024
[data]
files = "words.txt"
context = 256
held_out = 0
[optimizer]
learning_rate = 1e-3
weight_decay = 0.1
[train]
batch = 8
)";

// 11.2 million parameters.
constexpr std::string_view resnet18 = R"(
[model]
kind = "resnet18"
classes = 10
[data]
kind = "synthetic"
shape = [3, 32, 32]
classes = 10
held_out = 0
[optimizer]
learning_rate = 1e-3
weight_decay = 0.1
[train]
batch = 32
)";

std::string some_text() {
    constexpr std::array<std::string_view, 12> words = {"members", "come", "and",   "go",    "while", "the",
                                                        "state",   "of",   "every", "step.", "stays", "whole,"};
    std::string text;
    for (std::uint64_t i = 0; text.size() < text_bytes; ++i) {
        text += words[random_bits(1, 1, i) % words.size()];
        text += ' ';
    }
    return text;
}

std::int64_t usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

Result<TextFile> TextFile::write() {
    std::string name = (std::filesystem::temp_directory_path() / "chaos-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return Error{"cannot make the temporary folder " + name};
    TextFile file{name};
    CHAOS_CHECK(write_file_atomically(file.path(), some_text()));
    return file;
}

TextFile::TextFile(TextFile&& other) noexcept : folder_(std::move(other.folder_)) {
    other.folder_.clear();
}

TextFile::~TextFile() {
    if (folder_.empty()) return;
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

Result<run::Run> workload(std::string_view model, const std::filesystem::path& text) {
    CHAOS_TRY(run::Run run, run::parse_run(std::string(model == "llama" ? llama : resnet18),
                                           "the benchmark's " + std::string(model), text.parent_path()));
    run.train.threads = usable_cores();
    return run;
}

void fetch_batch(const run::Run& run, const data::Dataset& dataset, data::Position position, data::Batch& batch) {
    const auto stretches = data::samples_from(run.train.seed, position, static_cast<std::uint64_t>(run.train.batch),
                                              dataset.train_samples());
    // The benchmark takes far fewer steps than a pass has.
    CHAOS_ASSERT(stretches.size() == 1);
    dataset.fetch(run.train.seed, stretches.front().pass, stretches.front().numbers, batch);
}

}  // namespace chaos::bench
