#include "run/settle.h"

#include "run/keys.h"

#include <cmath>

namespace chaos::run {
namespace {

using Check = std::optional<Conflict>;

std::string text(std::int64_t number) {
    return std::to_string(number);
}

std::int64_t default_ffn(std::int64_t width) {
    const std::int64_t eight_thirds = (8 * width + 2) / 3;
    return (eight_thirds + 31) / 32 * 32;
}

Check settle_rope(const Rope& rope) {
    if (rope.kind != "llama3" || rope.low_frequency_factor < rope.high_frequency_factor) return {};
    return Conflict{"model.rope.low_frequency_factor (" + number_text(rope.low_frequency_factor) +
                        ") must be less than model.rope.high_frequency_factor (" +
                        number_text(rope.high_frequency_factor) + ")",
                    {"model.rope.low_frequency_factor", "model.rope.high_frequency_factor", "model.rope.kind"}};
}

Check settle_head_width(Llama& llama) {
    std::string subject = "model.head_width";
    const std::vector<std::string_view> keys = {"model.head_width", "model.heads", "model.width"};
    if (llama.head_width == 0) {
        if (llama.width % llama.heads != 0) {
            return Conflict{"model.heads (" + text(llama.heads) + ") must divide model.width (" + text(llama.width) +
                                ") unless model.head_width is set",
                            keys};
        }
        llama.head_width = llama.width / llama.heads;
        subject = "model.width / model.heads";
    }
    subject += " (" + text(llama.head_width) + ")";
    if (llama.head_width % 2 != 0) return Conflict{subject + " must be even, because RoPE turns pairs", keys};
    if (llama.head_width > max_head_width) {
        return Conflict{subject + " must be at most " + text(max_head_width), keys};
    }
    return {};
}

Check settle_llama(Llama& llama, std::int64_t context) {
    if (llama.kv_heads == 0) llama.kv_heads = llama.heads;
    if (llama.heads % llama.kv_heads != 0) {
        return Conflict{
            "model.kv_heads (" + text(llama.kv_heads) + ") must divide model.heads (" + text(llama.heads) + ")",
            {"model.kv_heads", "model.heads"}};
    }
    if (auto conflict = settle_head_width(llama)) return conflict;
    if (llama.ffn == 0) llama.ffn = default_ffn(llama.width);
    if (llama.max_context == 0) llama.max_context = context;
    if (llama.max_context < context) {
        return Conflict{
            "model.max_context (" + text(llama.max_context) + ") must be at least data.context (" + text(context) + ")",
            {"model.max_context", "data.context"}};
    }
    return settle_rope(llama.rope);
}

Check settle_model(Run& run) {
    if (run.model.kind == "torchscript" && run.model.path.empty()) {
        return Conflict{"model.path is missing: model.kind = \"torchscript\" needs it", {"model.kind"}};
    }
    if (run.model.kind != "llama" || !run.model.init.empty()) return {};
    return settle_llama(run.model.llama, run.data.context);
}

// Language models read tokens, image models read values; a TorchScript file may read either.
Check check_data_fits_model(const Run& run) {
    const std::string& model = run.model.kind;
    const std::string& data = run.data.kind;
    const std::vector<std::string_view> keys = {"data.kind", "model.kind"};
    if (model == "llama" && data != "text" && data != "synthetic") {
        return Conflict{"data.kind must be text or synthetic for model.kind = \"llama\", not " + data, keys};
    }
    if (model != "llama" && model != "torchscript" && data == "text") {
        return Conflict{"data.kind must be idx, cifar10 or synthetic for model.kind = \"" + model + "\", not text",
                        keys};
    }
    return {};
}

Check check_files(const Data& data) {
    if (data.kind == "synthetic") return {};
    if (data.files.empty()) return Conflict{"data.files is missing: data.kind = \"" + data.kind + "\" needs it", {}};
    if (data.kind == "idx" && data.labels.empty()) {
        return Conflict{"data.labels is missing: data.kind = \"idx\" needs it", {}};
    }
    if (data.kind == "idx" && data.labels.size() != data.files.size()) {
        return Conflict{"data.labels must name one file for each of data.files: " + std::to_string(data.labels.size()) +
                            " instead of " + std::to_string(data.files.size()),
                        {"data.labels"}};
    }
    return {};
}

Check settle_synthetic(Run& run) {
    Data& data = run.data;
    if (data.kind != "synthetic") return {};
    if (run.model.kind == "llama") {
        data.tokens = true;
        data.shape = {data.context};
        return {};
    }
    std::int64_t elements = 1;
    for (const std::int64_t extent : data.shape) {
        elements *= extent;  // both are within the limit, so the product fits
        if (elements > max_sample_elements) {
            return Conflict{"data.shape must describe at most " + text(max_sample_elements) + " values",
                            {"data.shape"}};
        }
    }
    const bool takes_any_shape = run.model.kind == "mlp" || run.model.kind == "torchscript";
    if (!takes_any_shape && data.shape.size() != 3) {
        return Conflict{"data.shape must be [channels, height, width] for model.kind = \"" + run.model.kind + "\"",
                        {"data.shape"}};
    }
    return {};
}

Check check_held_out(const Data& data) {
    if (data.held_out < 1.0 || data.held_out == std::floor(data.held_out)) return {};
    return Conflict{
        "data.held_out must be a share below 1 or a whole number of samples, not " + number_text(data.held_out),
        {"data.held_out"}};
}

Check check_steps(const Run& run) {
    const Train& train = run.train;
    if (train.batch % train.accumulate != 0) {
        return Conflict{
            "train.accumulate (" + text(train.accumulate) + ") must divide train.batch (" + text(train.batch) + ")",
            {"train.accumulate", "train.batch"}};
    }
    if (run.schedule.kind == "cosine" && run.schedule.warmup_steps >= train.steps) {
        return Conflict{"schedule.warmup_steps (" + text(run.schedule.warmup_steps) +
                            ") must be less than train.steps (" + text(train.steps) + ")",
                        {"schedule.warmup_steps", "train.steps"}};
    }
    return {};
}

}  // namespace

std::optional<Conflict> settle(Run& run) {
    if (auto conflict = settle_model(run)) return conflict;
    if (auto conflict = check_data_fits_model(run)) return conflict;
    if (auto conflict = check_files(run.data)) return conflict;
    if (auto conflict = settle_synthetic(run)) return conflict;
    if (auto conflict = check_held_out(run.data)) return conflict;
    return check_steps(run);
}

}  // namespace chaos::run
