// run/ says what is trained: the run file (TOML) parsed into plain structs, checked, with every default filled in.
// It reads the run file and nothing else (of paths in it, at most whether they exist); everybody above base/ may use
// its structs.
//
// A run file has the tables [model], [data], [optimizer], [schedule] and [train]; docs/run-file.md lists every key.
// Two runs are the same run when their identities are equal: everything the mathematics depends on, in one
// canonical text. Intervals, numbers of kept checkpoints and the like may change between two starts of one run.
#pragma once

#include "base/hash.h"
#include "base/result.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace chaos::run {

// How RoPE frequencies are scaled for long contexts ("default" or "llama3"), as in Hugging Face's config.json.
struct Rope {
    std::string kind = "default";
    double theta = 10000.0;
    double factor = 1.0;
    double low_frequency_factor = 1.0;
    double high_frequency_factor = 4.0;
    std::int64_t original_context = 8192;
};

struct Llama {
    std::int64_t vocab = 0;  // 0: taken from the data's tokenizer
    std::int64_t width = 256;
    std::int64_t layers = 4;
    std::int64_t heads = 4;
    std::int64_t kv_heads = 0;    // 0 in the file: as many as heads
    std::int64_t head_width = 0;  // 0 in the file: width / heads
    std::int64_t ffn = 0;         // 0 in the file: 8/3 of the width, rounded up to a multiple of 32
    bool tied_head = false;
    double norm_epsilon = 1e-5;
    Rope rope;
    std::optional<std::int64_t> bos_token;
    std::optional<std::int64_t> eos_token;
    std::int64_t max_context = 0;  // 0 in the file: the run's data.context; written to config.json
};

struct Model {
    std::string kind = "llama";  // llama, mlp, resnet18/34/50/101, vgg11/16, alexnet, torchscript
    Llama llama;
    std::vector<std::int64_t> hidden = {256};  // mlp: widths of the hidden layers
    std::int64_t classes = 0;                  // mlp, resnet, vgg, alexnet; 0: as many as the data has
    std::string norm = "group";                // resnet and vgg: group or batch
    double dropout = 0.5;                      // vgg and alexnet
    std::filesystem::path init;  // a Hugging Face folder whose weights the run starts from; `llama` is then to be
                                 // filled in from its config.json
    std::string init_hash;       // not a key: of the weights of `init`, where they are not there but come from others
    std::filesystem::path path;  // a TorchScript file (kind = torchscript)
    std::string loss = "cross_entropy";  // torchscript: cross_entropy, nll, mse, or "module": forward(x, y) is the loss
};

struct Data {
    std::string kind = "text";                  // text, idx, cifar10, synthetic
    std::vector<std::filesystem::path> files;   // text: texts; idx: images; cifar10: batches
    std::vector<std::filesystem::path> labels;  // idx: one for each of files
    std::filesystem::path tokenizer;            // text: a tokenizer.json (with model.init that folder's); empty: bytes
    std::int64_t context = 128;                 // text: tokens per sample
    double held_out = 0.1;                      // below 1 a share, from 1 on a number of samples; 0: none
    bool tokens = false;  // synthetic: samples are tokens; not a key: it follows from model.kind = llama
    std::vector<std::int64_t> shape = {3, 32, 32};  // synthetic: one sample's shape; {context} if it is of tokens
    std::int64_t classes = 10;                      // synthetic: classes or vocabulary
    std::int64_t samples = 4096;                    // synthetic
};

struct Optimizer {
    std::string kind = "adamw";  // adamw or sgd
    double learning_rate = 1e-3;
    double weight_decay = 0.0;
    double beta1 = 0.9;      // adamw
    double beta2 = 0.999;    // adamw
    double epsilon = 1e-8;   // adamw
    double momentum = 0.9;   // sgd
    double clip_norm = 0.0;  // 0: no clipping
};

struct Schedule {
    std::string kind = "constant";  // constant or cosine
    std::int64_t warmup_steps = 0;
    double final_ratio = 0.1;  // cosine: the last learning rate over the largest
};

struct Train {
    std::int64_t steps = 1000;
    std::int64_t batch = 32;      // samples per step
    std::int64_t accumulate = 1;  // parts a step's batch is computed in
    std::uint64_t seed = 1;
    std::int64_t threads = 0;             // 0: one per core
    std::int64_t eval_every = 100;        // 0: only at the end
    std::int64_t verify_every = 10;       // 0: only at the end
    std::int64_t checkpoint_every = 100;  // 0: only at the end
    std::int64_t keep_checkpoints = 3;
};

struct Run {
    Model model;
    Data data;
    Optimizer optimizer;
    Schedule schedule;
    Train train;
};

// Reads and checks a run file. Paths inside it are relative to the file's folder.
[[nodiscard]] Result<Run> read_run(const std::filesystem::path& path);
// The same from text; `name` stands for the file in errors, `folder` for its folder.
[[nodiscard]] Result<Run> parse_run(const std::string& text, const std::string& name,
                                    const std::filesystem::path& folder);
// The same of a run file from another machine, where it is known already what each of its keys that name files stands
// for here. Nothing is looked for.
using Places = std::map<std::string, std::vector<std::filesystem::path>, std::less<>>;
[[nodiscard]] Result<Run> parse_run(const std::string& text, const std::string& name, const Places& places);

// Every key the mathematics depends on, with its value as text: "optimizer.learning_rate" -> "0.001". File paths
// are not part of it (the content of data and initial weights is, by hashes the caller adds). What the file leaves to
// the data or to model.init (vocab, classes, the shape) has to be filled in before.
using Identity = std::map<std::string, std::string>;
[[nodiscard]] Identity identity(const Run& run);
// What else all members of a cluster need alike, although it may change from one start of all of them to the next.
[[nodiscard]] Identity shared_settings(const Run& run);
[[nodiscard]] Digest hash(const Identity& identity);

}  // namespace chaos::run
