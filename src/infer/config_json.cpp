#include "base/file.h"
#include "base/words.h"
#include "infer/config.h"
#include "infer/rope.h"
#include "run/limits.h"
#include "text/fields.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numbers>

namespace chaos::infer {
namespace {

using nlohmann::json;
using text::Field;

Result<json> read_json(const std::filesystem::path& path) {
    CHAOS_TRY(const std::string content, read_file(path));
    json value = json::parse(content, nullptr, false);
    if (!value.is_object()) return Error{path.string() + " is not a JSON object"};
    return value;
}

Result<std::int64_t> whole(const Field& fields, const char* key, std::int64_t most,
                           std::optional<std::int64_t> otherwise = {}) {
    CHAOS_TRY(const auto found, fields.find(key));
    if (!found && otherwise) return *otherwise;
    CHAOS_TRY(const Field field, fields.at(key));
    return field.integer(1, most);
}

Result<double> real(const Field& fields, const char* key, std::optional<double> otherwise = {}) {
    CHAOS_TRY(const auto found, fields.find(key));
    if (!found && otherwise) return *otherwise;
    CHAOS_TRY(const Field field, fields.at(key));
    return field.number();
}

Result<std::string> word(const Field& fields, const char* key, const std::string& otherwise) {
    CHAOS_TRY(const auto found, fields.find(key));
    if (!found) return otherwise;
    return found->text();
}

// One token or a list of them.
Result<std::vector<std::int64_t>> tokens(const Field& fields, const char* key) {
    std::vector<std::int64_t> result;
    CHAOS_TRY(const auto found, fields.find(key));
    if (!found) return result;
    std::vector<Field> items = {*found};
    if (found->json().is_array()) {
        CHAOS_TRY(items, found->items());
    }
    for (const Field& item : items) {
        CHAOS_TRY(const auto token, item.integer(0, run::max_vocab));
        result.push_back(token);
    }
    return result;
}

// Llama 3 stretches the slow frequencies by `factor`, leaves the fast ones, and goes over smoothly between.
Result<std::vector<float>> llama3_divisors(const Field& table, double theta, std::int64_t head_width) {
    CHAOS_TRY(const double factor, real(table, "factor"));
    CHAOS_TRY(const double low, real(table, "low_freq_factor"));
    CHAOS_TRY(const double high, real(table, "high_freq_factor"));
    CHAOS_TRY(const double context, real(table, "original_max_position_embeddings"));
    if (!(factor > 0.0) || !(low > 0.0) || !(high > low) || !(context > 0.0))
        return table.error("makes no sense: factors must be positive, high_freq_factor above low_freq_factor");
    std::vector<float> divisors;
    for (std::int64_t i = 0; i < head_width / 2; ++i) {
        const double frequency = power(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_width));
        const double turns = context * frequency / (2.0 * std::numbers::pi);
        const double smooth = std::clamp((turns - low) / (high - low), 0.0, 1.0);
        divisors.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / factor + smooth)));
    }
    return divisors;
}

// RoPE stands in rope_parameters (transformers 5) or in rope_theta and rope_scaling (before).
Result<Rope> read_rope(const Field& fields, std::int64_t head_width) {
    Rope rope;
    CHAOS_TRY(rope.theta, real(fields, "rope_theta", rope.theta));
    CHAOS_TRY(auto table, fields.find("rope_parameters"));
    if (!table) {
        CHAOS_TRY(table, fields.find("rope_scaling"));
    }
    if (!table) return rope;
    for (const auto& [key, value] : table->json().items())
        if (value.is_object())
            return table->error("differs between kinds of layers ('" + printable(key) + "'), which is not supported");
    CHAOS_TRY(const std::string older, word(*table, "type", "default"));
    CHAOS_TRY(const std::string kind, word(*table, "rope_type", older));
    CHAOS_TRY(rope.theta, real(*table, "rope_theta", rope.theta));
    if (!(rope.theta > 0.0 && rope.theta < 1e30)) return table->error("has a theta that makes no sense");
    CHAOS_TRY(const double turned, real(*table, "partial_rotary_factor", 1.0));
    if (turned != 1.0) return table->error("has a partial_rotary_factor, which is not supported");
    if (kind == "linear") {
        CHAOS_TRY(rope.linear_factor, real(*table, "factor"));
    } else if (kind == "llama3") {
        CHAOS_TRY(rope.divisors, llama3_divisors(*table, rope.theta, head_width));
    } else if (kind != "default") {
        constexpr std::array<std::string_view, 3> supported = {"default", "linear", "llama3"};
        return table->unsupported(kind, supported);
    }
    return rope;
}

// What a config.json means that leaves a field out.
struct Defaults {
    std::string_view kind;
    std::int64_t max_context;
    std::optional<std::int64_t> kv_heads;    // none: as many as heads
    std::optional<std::int64_t> head_width;  // none: width / heads
    std::optional<std::int64_t> window;      // none: all see all
};
constexpr std::array<Defaults, 4> all_defaults = {{
    {"llama", 2048, {}, {}, {}},
    {"mistral", 131072, 8, {}, 4096},
    {"qwen2", 32768, 32, {}, 4096},
    {"qwen3", 32768, 32, 128, 4096},
}};

// How many tokens the layer that looks back least can see: nothing where all see all. Null is not left out: it says so.
Result<std::optional<std::int64_t>> read_window(const Field& fields, const Config& config, const Defaults& defaults) {
    constexpr std::int64_t most = std::int64_t{1} << 40;
    const bool said = fields.json().contains("sliding_window");
    CHAOS_TRY(const std::int64_t window,
              whole(fields, "sliding_window", most, said ? most : defaults.window.value_or(most)));
    bool used = config.kind == "mistral";
    if (config.kind == "qwen2" || config.kind == "qwen3") {
        CHAOS_TRY(used, fields.flag_at("use_sliding_window", false));
    }
    return used && window < most ? std::optional(window) : std::nullopt;
}

Result<void> refuse_unsupported(const Field& fields) {
    CHAOS_TRY(const std::string activation, word(fields, "hidden_act", "silu"));
    if (activation != "silu") {
        constexpr std::array<std::string_view, 1> supported = {"silu"};
        CHAOS_TRY(const Field field, fields.at("hidden_act"));
        return field.unsupported(activation, supported);
    }
    CHAOS_TRY(const auto quantized, fields.find("quantization_config"));
    if (quantized) return quantized->error("is not supported: safetensors hold F32, F16 or BF16");
    CHAOS_TRY(const double turned, real(fields, "partial_rotary_factor", 1.0));
    if (turned != 1.0) return fields.error("has a partial_rotary_factor, which is not supported");
    return {};
}

Result<void> read_biases(const Field& fields, Config& config) {
    CHAOS_TRY(const bool attention, fields.flag_at("attention_bias", false));
    CHAOS_TRY(const bool ffn, fields.flag_at("mlp_bias", false));
    const bool llama = config.kind == "llama";
    config.qkv_bias = config.kind == "qwen2" || (attention && config.kind != "mistral");
    config.output_bias = attention && (llama || config.kind == "qwen3");
    config.ffn_bias = llama && ffn;
    return {};
}

}  // namespace

Result<Config> read_config(const std::filesystem::path& folder) {
    const std::filesystem::path path = folder / "config.json";
    CHAOS_TRY(const json value, read_json(path));
    const Field fields(value, path.string());
    Config config;
    CHAOS_TRY(config.kind, word(fields, "model_type", ""));
    const auto* defaults = std::find_if(all_defaults.begin(), all_defaults.end(),
                                        [&](const Defaults& each) { return each.kind == config.kind; });
    if (defaults == all_defaults.end())
        return Error{path.string() + ": model_type '" + printable(config.kind) +
                     "' is not supported (only llama, mistral, qwen2 or qwen3)"};
    CHAOS_CHECK(refuse_unsupported(fields));
    CHAOS_TRY(config.vocab, whole(fields, "vocab_size", run::max_vocab));
    CHAOS_TRY(config.width, whole(fields, "hidden_size", run::max_width));
    CHAOS_TRY(config.layers, whole(fields, "num_hidden_layers", run::max_layers));
    CHAOS_TRY(config.heads, whole(fields, "num_attention_heads", run::max_heads));
    CHAOS_TRY(config.kv_heads,
              whole(fields, "num_key_value_heads", run::max_heads, defaults->kv_heads.value_or(config.heads)));
    const std::int64_t share = std::max<std::int64_t>(config.width / config.heads, 1);
    CHAOS_TRY(config.head_width, whole(fields, "head_dim", run::max_head_width, defaults->head_width.value_or(share)));
    CHAOS_TRY(config.ffn, whole(fields, "intermediate_size", run::max_ffn));
    CHAOS_TRY(config.max_context,
              whole(fields, "max_position_embeddings", std::int64_t{1} << 32, defaults->max_context));
    CHAOS_TRY(config.norm_epsilon, real(fields, "rms_norm_eps", config.norm_epsilon));
    CHAOS_TRY(config.tied_head, fields.flag_at("tie_word_embeddings", false));
    config.head_norm = config.kind == "qwen3";
    CHAOS_CHECK(read_biases(fields, config));
    CHAOS_TRY(config.rope, read_rope(fields, config.head_width));
    CHAOS_TRY(const auto window, read_window(fields, config, *defaults));
    config.max_context = std::min({config.max_context, window.value_or(run::max_context), run::max_context});

    CHAOS_TRY(const auto begin, tokens(fields, "bos_token_id"));
    if (!begin.empty()) config.bos_token = begin.front();
    CHAOS_TRY(config.eos_tokens, tokens(fields, "eos_token_id"));
    const std::filesystem::path generation = folder / "generation_config.json";
    std::error_code error;
    if (std::filesystem::exists(generation, error)) {
        CHAOS_TRY(const json generating, read_json(generation));
        CHAOS_TRY(const auto more, tokens(Field(generating, generation.string()), "eos_token_id"));
        for (const std::int64_t token : more)
            if (std::find(config.eos_tokens.begin(), config.eos_tokens.end(), token) == config.eos_tokens.end())
                config.eos_tokens.push_back(token);
    }
    CHAOS_CHECK(check_config(config, path.string()));
    return config;
}

}  // namespace chaos::infer
