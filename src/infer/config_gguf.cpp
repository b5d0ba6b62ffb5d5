#include "base/words.h"
#include "infer/config.h"
#include "run/limits.h"

#include <algorithm>

namespace chaos::infer {
namespace {

// The metadata that carries the architecture's name in front of its key.
class Keys {
public:
    Keys(const Gguf& file, const std::string& architecture) : file_(file), prefix_(architecture + ".") {}

    [[nodiscard]] Result<std::int64_t> whole(const char* key, std::int64_t most,
                                             std::optional<std::int64_t> otherwise = {}) const {
        CHAOS_TRY(const auto found, file_.whole(prefix_ + key));
        if (!found && otherwise) return *otherwise;
        if (!found) return Error{file_.name() + " lacks the metadata " + prefix_ + key};
        if (*found < 1 || *found > most)
            return Error{file_.name() + ": metadata " + prefix_ + key + " must be from 1 to " + std::to_string(most) +
                         ", not " + std::to_string(*found)};
        return *found;
    }
    [[nodiscard]] Result<double> real(const char* key, std::optional<double> otherwise = {}) const {
        CHAOS_TRY(const auto found, file_.real(prefix_ + key));
        if (!found && !otherwise) return Error{file_.name() + " lacks the metadata " + prefix_ + key};
        return found ? *found : *otherwise;
    }
    [[nodiscard]] Error unsupported(const char* key, const std::string& what) const {
        return Error{file_.name() + ": metadata " + prefix_ + key + " asks for " + what + ", which is not supported"};
    }
    [[nodiscard]] Result<std::string> word(const char* key, const std::string& otherwise) const {
        CHAOS_TRY(const auto found, file_.text(prefix_ + key));
        return found.value_or(otherwise);
    }

private:
    const Gguf& file_;
    std::string prefix_;
};

Result<Rope> read_rope(const Gguf& file, const Keys& keys, std::int64_t head_width) {
    Rope rope;
    CHAOS_TRY(rope.theta, keys.real("rope.freq_base", rope.theta));
    CHAOS_TRY(const std::string scaling, keys.word("rope.scaling.type", "none"));
    // Older files say nothing of the kind and give a factor alone.
    CHAOS_TRY(const double linear, keys.real("rope.scale_linear", 1.0));
    rope.linear_factor = linear;
    if (scaling == "linear") {
        CHAOS_TRY(rope.linear_factor, keys.real("rope.scaling.factor", linear));
    } else if (scaling != "none") {
        return keys.unsupported("rope.scaling.type", "\"" + printable(scaling) + "\"");
    }
    if (const auto found = file.tensors().find("rope_freqs.weight"); found != file.tensors().end()) {
        const Gguf::Tensor& tensor = found->second;
        if (tensor.type != StoredType::f32 || tensor.extents.size() != 1 ||
            tensor.extents[0] != static_cast<std::uint64_t>(head_width / 2))
            return Error{file.name() + ": tensor rope_freqs.weight must be F32 with " + std::to_string(head_width / 2) +
                         " values"};
        rope.divisors.resize(tensor.extents[0]);
        decode_row(tensor.type, tensor.bytes, rope.divisors);
    }
    return rope;
}

Result<void> refuse_unsupported(const Keys& keys, const Config& config) {
    CHAOS_TRY(const auto values, keys.whole("attention.value_length", run::max_head_width, config.head_width));
    if (values != config.head_width) return keys.unsupported("attention.value_length", "values narrower than keys");
    CHAOS_TRY(const auto turned, keys.whole("rope.dimension_count", run::max_head_width, config.head_width));
    if (turned != config.head_width) return keys.unsupported("rope.dimension_count", "RoPE on a part of a head");
    return {};
}

// A list of the metadata; null where there is none of that kind.
template <class T>
const std::vector<T>* list(const Gguf& file, std::string_view key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? nullptr : std::get_if<std::vector<T>>(&found->second.content);
}

Result<std::vector<std::int64_t>> end_tokens(const Gguf& file, std::int64_t vocab) {
    constexpr std::int64_t control_token = 3;
    if (const auto* all = list<std::int64_t>(file, end_tokens_key)) return *all;
    std::vector<std::int64_t> tokens;
    for (const char* key :
         {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
        CHAOS_TRY(const auto token, file.whole(key));
        if (token && std::find(tokens.begin(), tokens.end(), *token) == tokens.end()) tokens.push_back(*token);
    }
    // Many files name the end of a text only, where answers end with a turn.
    const auto* texts = list<std::string>(file, "tokenizer.ggml.tokens");
    const auto* types = list<std::int64_t>(file, "tokenizer.ggml.token_type");
    if (texts == nullptr || types == nullptr) return tokens;
    const std::size_t count = std::min({texts->size(), types->size(), static_cast<std::size_t>(vocab)});
    for (std::size_t id = 0; id < count; ++id) {
        const auto token = static_cast<std::int64_t>(id);
        if ((*types)[id] == control_token && ends_turn((*texts)[id]) &&
            std::find(tokens.begin(), tokens.end(), token) == tokens.end())
            tokens.push_back(token);
    }
    return tokens;
}

}  // namespace

Result<Config> read_config(const Gguf& file) {
    Config config;
    CHAOS_TRY(const auto architecture, file.text("general.architecture"));
    if (!architecture) return Error{file.name() + " lacks the metadata general.architecture"};
    config.kind = *architecture;
    if (config.kind != "llama" && config.kind != "qwen2" && config.kind != "qwen3")
        return Error{file.name() + ": architecture '" + printable(config.kind) +
                     "' is not supported (only llama, which Mistral's is too, qwen2 or qwen3)"};
    const Keys keys(file, config.kind);
    CHAOS_TRY(const auto experts, file.whole(config.kind + ".expert_count"));
    if (experts.value_or(0) > 0) return keys.unsupported("expert_count", "experts");

    CHAOS_TRY(config.width, keys.whole("embedding_length", run::max_width));
    CHAOS_TRY(config.layers, keys.whole("block_count", run::max_layers));
    CHAOS_TRY(config.heads, keys.whole("attention.head_count", run::max_heads));
    CHAOS_TRY(config.kv_heads, keys.whole("attention.head_count_kv", run::max_heads, config.heads));
    const std::int64_t share = std::max<std::int64_t>(config.width / config.heads, 1);
    CHAOS_TRY(config.head_width, keys.whole("attention.key_length", run::max_head_width, share));
    CHAOS_TRY(config.ffn, keys.whole("feed_forward_length", run::max_ffn));
    CHAOS_TRY(config.max_context, keys.whole("context_length", std::int64_t{1} << 32));
    CHAOS_TRY(config.norm_epsilon, keys.real("attention.layer_norm_rms_epsilon"));
    CHAOS_TRY(const auto window, keys.whole("attention.sliding_window", std::int64_t{1} << 40, config.max_context));
    config.max_context = std::min({config.max_context, window, run::max_context});
    CHAOS_CHECK(refuse_unsupported(keys, config));
    CHAOS_TRY(config.rope, read_rope(file, keys, config.head_width));

    const auto embedding = file.tensors().find("token_embd.weight");
    if (embedding == file.tensors().end() || embedding->second.extents.size() != 2)
        return Error{file.name() + " lacks the tensor token_embd.weight, or it is no matrix"};
    if (embedding->second.extents[1] > static_cast<std::uint64_t>(run::max_vocab))
        return Error{file.name() + ": tensor token_embd.weight has too many rows"};
    config.vocab = static_cast<std::int64_t>(embedding->second.extents[1]);
    // What the architecture leaves open shows in the tensors of the first layer; the others must then have it too.
    const auto has = [&](const char* tensor) { return file.tensors().contains(tensor); };
    config.tied_head = !has("output.weight");
    config.head_norm = config.kind == "qwen3";
    config.qkv_bias = has("blk.0.attn_q.bias");
    config.output_bias = has("blk.0.attn_output.bias");
    config.ffn_bias = has("blk.0.ffn_gate.bias");

    CHAOS_TRY(config.bos_token, file.whole("tokenizer.ggml.bos_token_id"));
    CHAOS_TRY(config.eos_tokens, end_tokens(file, config.vocab));
    CHAOS_CHECK(check_config(config, file.name()));
    return config;
}

}  // namespace chaos::infer
