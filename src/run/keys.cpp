#include "run/keys.h"

#include "base/assert.h"
#include "base/words.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <system_error>

namespace chaos::run {
namespace {

using Ends = RealNumber::Ends;

constexpr std::string_view model_kinds[] = {"llama",     "mlp",   "resnet18", "resnet34", "resnet50",
                                            "resnet101", "vgg11", "vgg16",    "alexnet",  "torchscript"};
constexpr std::string_view losses[] = {"cross_entropy", "nll", "mse", "module"};
constexpr std::string_view norms[] = {"group", "batch"};
constexpr std::string_view rope_kinds[] = {"default", "llama3"};
constexpr std::string_view data_kinds[] = {"text", "idx", "cifar10", "synthetic"};
constexpr std::string_view optimizer_kinds[] = {"adamw", "sgd"};
constexpr std::string_view schedule_kinds[] = {"constant", "cosine"};

// Smaller ones lose their meaning in 32-bit arithmetic.
constexpr double min_epsilon = 1e-20;

using Kinds = std::initializer_list<std::string_view>;

// A key applies when `chosen`, the value of the key `choice`, is one of `kinds`.
std::string only_for(std::string_view choice, const std::string& chosen, Kinds kinds) {
    if (is_one_of(chosen, kinds)) return "";
    return "does not apply to " + std::string(choice) + " = \"" + chosen + "\", only to " + one_of(kinds);
}

std::string only_for_model(const Run& run, Kinds kinds) {
    return only_for("model.kind", run.model.kind, kinds);
}

std::string only_for_data(const Run& run, Kinds kinds) {
    return only_for("data.kind", run.data.kind, kinds);
}

std::string for_llama(const Run& run) {
    return only_for_model(run, {"llama"});
}

std::string for_llama3_rope(const Run& run) {
    const std::string refusal = for_llama(run);
    return refusal.empty() ? only_for("model.rope.kind", run.model.llama.rope.kind, {"llama3"}) : refusal;
}

std::string for_init(const Run& run) {
    return run.model.path.empty() ? for_llama(run) : "cannot be set together with model.path";
}

std::string for_torchscript(const Run& run) {
    return only_for_model(run, {"torchscript"});
}

std::string for_mlp(const Run& run) {
    return only_for_model(run, {"mlp"});
}

std::string for_classifiers(const Run& run) {
    return only_for_model(run, {"mlp", "resnet18", "resnet34", "resnet50", "resnet101", "vgg11", "vgg16", "alexnet"});
}

std::string for_models_with_norm(const Run& run) {
    return only_for_model(run, {"resnet18", "resnet34", "resnet50", "resnet101", "vgg11", "vgg16"});
}

std::string for_models_with_dropout(const Run& run) {
    return only_for_model(run, {"vgg11", "vgg16", "alexnet"});
}

std::string for_text(const Run& run) {
    return only_for_data(run, {"text"});
}

std::string for_idx(const Run& run) {
    return only_for_data(run, {"idx"});
}

std::string for_data_in_files(const Run& run) {
    return only_for_data(run, {"text", "idx", "cifar10"});
}

std::string for_synthetic(const Run& run) {
    return only_for_data(run, {"synthetic"});
}

// Synthetic samples are tokens for a language model and values for any other.
std::string for_tokens(const Run& run) {
    if (run.data.kind != "synthetic" || run.model.kind == "llama") return only_for_data(run, {"text", "synthetic"});
    return "does not apply to synthetic data for model.kind = \"" + run.model.kind + "\"; data.shape does";
}

std::string for_synthetic_values(const Run& run) {
    if (run.data.kind != "synthetic" || run.model.kind != "llama") return for_synthetic(run);
    return "does not apply to synthetic data for model.kind = \"llama\"; data.context does";
}

std::string for_adamw(const Run& run) {
    return only_for("optimizer.kind", run.optimizer.kind, {"adamw"});
}

std::string for_sgd(const Run& run) {
    return only_for("optimizer.kind", run.optimizer.kind, {"sgd"});
}

std::string for_cosine(const Run& run) {
    return only_for("schedule.kind", run.schedule.kind, {"cosine"});
}

std::vector<Key> model_keys(Model& model) {
    return {
        {"model.kind", Word{&model.kind, model_kinds}},
        {"model.path", File{&model.path}, for_torchscript},
        {"model.loss", Word{&model.loss, losses}, for_torchscript},
        {"model.init", Folder{&model.init}, for_init},
        {"model.hidden", WholeNumbers{&model.hidden, 1, max_ffn, max_hidden_layers}, for_mlp},
        {"model.classes", WholeNumber{&model.classes, 0, max_vocab}, for_classifiers},
        {"model.norm", Word{&model.norm, norms}, for_models_with_norm},
        {"model.dropout", RealNumber{&model.dropout, 0.0, 1.0, Ends::only_least}, for_models_with_dropout},
    };
}

std::vector<Key> llama_keys(Llama& llama) {
    Rope& rope = llama.rope;
    std::vector<Key> keys = {
        {"model.vocab", WholeNumber{&llama.vocab, 0, max_vocab}, for_llama},
        {"model.width", WholeNumber{&llama.width, 1, max_width}, for_llama},
        {"model.layers", WholeNumber{&llama.layers, 1, max_layers}, for_llama},
        {"model.heads", WholeNumber{&llama.heads, 1, max_heads}, for_llama},
        {"model.kv_heads", WholeNumber{&llama.kv_heads, 0, max_heads}, for_llama},
        {"model.head_width", WholeNumber{&llama.head_width, 0, max_head_width}, for_llama},
        {"model.ffn", WholeNumber{&llama.ffn, 0, max_ffn}, for_llama},
        {"model.tied_head", Flag{&llama.tied_head}, for_llama},
        {"model.norm_epsilon", RealNumber{&llama.norm_epsilon, min_epsilon, 1.0}, for_llama},
        {"model.max_context", WholeNumber{&llama.max_context, 0, max_context}, for_llama},
        {"model.rope.kind", Word{&rope.kind, rope_kinds}, for_llama},
        {"model.rope.theta", RealNumber{&rope.theta, 1.0, 1e12}, for_llama},
        {"model.rope.factor", RealNumber{&rope.factor, 1.0, 1e6}, for_llama3_rope},
        {"model.rope.low_frequency_factor", RealNumber{&rope.low_frequency_factor, 1e-6, 1e6}, for_llama3_rope},
        {"model.rope.high_frequency_factor", RealNumber{&rope.high_frequency_factor, 1e-6, 1e6}, for_llama3_rope},
        {"model.rope.original_context", WholeNumber{&rope.original_context, 1, max_context}, for_llama3_rope},
    };
    for (Key& key : keys) key.beside_init = "the shape comes from that folder";
    return keys;
}

std::vector<Key> data_keys(Data& data) {
    Key tokenizer = {"data.tokenizer", File{&data.tokenizer}, for_text};
    tokenizer.beside_init = "that folder's tokenizer is used";
    return {
        {"data.kind", Word{&data.kind, data_kinds}},
        {"data.files", Files{&data.files}, for_data_in_files},
        {"data.labels", Files{&data.labels}, for_idx},
        tokenizer,
        {"data.context", WholeNumber{&data.context, 1, max_context}, for_tokens},
        {"data.held_out", RealNumber{&data.held_out, 0.0, static_cast<double>(max_samples)}},
        {"data.shape", WholeNumbers{&data.shape, 1, max_sample_elements, max_dimensions}, for_synthetic_values},
        {"data.classes", WholeNumber{&data.classes, 2, max_vocab}, for_synthetic},
        {"data.samples", WholeNumber{&data.samples, 1, max_samples}, for_synthetic},
    };
}

std::vector<Key> optimizer_keys(Optimizer& optimizer) {
    return {
        {"optimizer.kind", Word{&optimizer.kind, optimizer_kinds}},
        {"optimizer.learning_rate", RealNumber{&optimizer.learning_rate, 0.0, 1000.0, Ends::only_most}},
        {"optimizer.weight_decay", RealNumber{&optimizer.weight_decay, 0.0, 1000.0}},
        {"optimizer.beta1", RealNumber{&optimizer.beta1, 0.0, 1.0, Ends::only_least}, for_adamw},
        {"optimizer.beta2", RealNumber{&optimizer.beta2, 0.0, 1.0, Ends::only_least}, for_adamw},
        {"optimizer.epsilon", RealNumber{&optimizer.epsilon, min_epsilon, 1.0}, for_adamw},
        {"optimizer.momentum", RealNumber{&optimizer.momentum, 0.0, 1.0, Ends::only_least}, for_sgd},
        {"optimizer.clip_norm", RealNumber{&optimizer.clip_norm, 0.0, 1e9}},
    };
}

std::vector<Key> schedule_keys(Schedule& schedule) {
    return {
        {"schedule.kind", Word{&schedule.kind, schedule_kinds}},
        {"schedule.warmup_steps", WholeNumber{&schedule.warmup_steps, 0, max_steps}},
        {"schedule.final_ratio", RealNumber{&schedule.final_ratio, 0.0, 1.0}, for_cosine},
    };
}

std::vector<Key> train_keys(const Schedule& schedule, Train& train) {
    // A constant schedule does not know where it ends: such a run may be made longer and stays the same run.
    const bool steps_matter = schedule.kind != "constant";
    return {
        {"train.steps", WholeNumber{&train.steps, 1, max_steps}, nullptr, steps_matter, {}, true},
        {"train.batch", WholeNumber{&train.batch, 1, max_batch}},
        {"train.accumulate", WholeNumber{&train.accumulate, 1, max_batch}},
        {"train.seed", Seed{&train.seed}},
        {"train.threads", WholeNumber{&train.threads, 0, max_threads}, nullptr, false},
        {"train.eval_every", WholeNumber{&train.eval_every, 0, max_steps}, nullptr, false, {}, true},
        {"train.verify_every", WholeNumber{&train.verify_every, 0, max_steps}, nullptr, false, {}, true},
        {"train.checkpoint_every", WholeNumber{&train.checkpoint_every, 0, max_steps}, nullptr, false},
        {"train.keep_checkpoints", WholeNumber{&train.keep_checkpoints, 1, max_kept_checkpoints}, nullptr, false},
    };
}

}  // namespace

std::vector<Key> keys(Run& run) {
    std::vector<Key> all;
    const auto add = [&all](const std::vector<Key>& some) { all.insert(all.end(), some.begin(), some.end()); };
    add(model_keys(run.model));
    add(llama_keys(run.model.llama));
    add(data_keys(run.data));
    add(optimizer_keys(run.optimizer));
    add(schedule_keys(run.schedule));
    add(train_keys(run.schedule, run.train));
    return all;
}

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
}

std::string number_text(double number) {
    char text[32];
    const auto [end, code] = std::to_chars(text, text + sizeof text, number);
    CHAOS_ASSERT(code == std::errc());
    return std::string(text, end);
}

}  // namespace chaos::run
