#include "state/hugging_face.h"

#include "base/file.h"
#include "run/limits.h"
#include "state/checkpoint.h"
#include "state/safetensors.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace chaos::state {
namespace {

using nlohmann::json;

Result<json> read_json(const std::filesystem::path& path) {
    CHAOS_TRY(const std::string text, read_file(path));
    json value = json::parse(text, nullptr, false);
    if (!value.is_object()) return Error{path.string() + " is not a JSON object"};
    return value;
}

// One field of config.json: checked, with a default where Hugging Face has one.
class Fields {
public:
    Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {}

    Result<std::int64_t> whole(const char* key, std::int64_t most, std::optional<std::int64_t> fallback = {}) const {
        if (missing(key) && fallback) return *fallback;
        if (missing(key) || !object_[key].is_number_integer()) return wrong(key, "a whole number");
        const auto value = object_[key].get<std::int64_t>();
        if (value < 1 || value > most) return wrong(key, "a whole number from 1 to " + std::to_string(most));
        return value;
    }
    Result<double> real(const char* key, double fallback) const {
        if (missing(key)) return fallback;
        if (!object_[key].is_number()) return wrong(key, "a number");
        return object_[key].get<double>();
    }
    Result<bool> flag(const char* key) const {
        if (missing(key)) return false;
        if (!object_[key].is_boolean()) return wrong(key, "true or false");
        return object_[key].get<bool>();
    }
    Result<std::string> text(const char* key, const std::string& fallback) const {
        if (missing(key)) return fallback;
        if (!object_[key].is_string()) return wrong(key, "a string");
        return object_[key].get<std::string>();
    }
    // A token id; Llama 3 lists several end tokens, of which the first is the one.
    std::optional<std::int64_t> token(const char* key) const {
        if (missing(key)) return std::nullopt;
        const json& value = object_[key].is_array() && !object_[key].empty() ? object_[key][0] : object_[key];
        if (!value.is_number_integer()) return std::nullopt;
        return value.get<std::int64_t>();
    }

private:
    bool missing(const char* key) const { return !object_.contains(key) || object_[key].is_null(); }
    Error wrong(const char* key, const std::string& what) const {
        return Error{where_ + ": \"" + key + "\" must be " + what};
    }
    const json& object_;
    std::string where_;
};

// RoPE stands in rope_parameters (transformers 5) or in rope_theta and rope_scaling (before).
Result<run::Rope> read_rope(const json& config, const std::string& name) {
    run::Rope rope;
    const Fields top(config, name);
    CHAOS_TRY(rope.theta, top.real("rope_theta", rope.theta));
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
        if (!config.contains(key) || !config[key].is_object()) continue;
        const json& table = config[key];
        const Fields fields(table, name + ": " + key);
        CHAOS_TRY(rope.kind, fields.text(table.contains("rope_type") ? "rope_type" : "type", "default"));
        CHAOS_TRY(rope.theta, fields.real("rope_theta", rope.theta));
        if (rope.kind == "default") break;
        if (rope.kind != "llama3")
            return Error{name + ": RoPE scaling \"" + rope.kind + "\" is not supported; default and llama3 are"};
        CHAOS_TRY(rope.factor, fields.real("factor", rope.factor));
        CHAOS_TRY(rope.low_frequency_factor, fields.real("low_freq_factor", rope.low_frequency_factor));
        CHAOS_TRY(rope.high_frequency_factor, fields.real("high_freq_factor", rope.high_frequency_factor));
        CHAOS_TRY(rope.original_context,
                  fields.whole("original_max_position_embeddings", std::int64_t{1} << 32, rope.original_context));
        break;
    }
    if (!(rope.theta > 0.0) || !(rope.factor > 0.0) || !(rope.high_frequency_factor > rope.low_frequency_factor))
        return Error{name +
                     ": the RoPE parameters make no sense (theta and factor must be positive, "
                     "high_freq_factor larger than low_freq_factor)"};
    return rope;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
    return json(shape).dump();
}

}  // namespace

Result<run::Llama> read_llama_config(const std::filesystem::path& folder) {
    const std::filesystem::path path = folder / "config.json";
    CHAOS_TRY(const json config, read_json(path));
    const std::string name = path.string();
    const Fields fields(config, name);
    CHAOS_TRY(const std::string type, fields.text("model_type", ""));
    if (type != "llama") return Error{name + ": model_type \"" + type + "\" is not supported; llama is"};
    for (const char* key : {"attention_bias", "mlp_bias"}) {
        CHAOS_TRY(const bool bias, fields.flag(key));
        if (bias) return Error{name + ": \"" + key + "\" is not supported"};
    }
    CHAOS_TRY(const std::string activation, fields.text("hidden_act", "silu"));
    if (activation != "silu") return Error{name + ": hidden_act \"" + activation + "\" is not supported; silu is"};

    run::Llama llama;
    CHAOS_TRY(llama.vocab, fields.whole("vocab_size", run::max_vocab));
    CHAOS_TRY(llama.width, fields.whole("hidden_size", run::max_width));
    CHAOS_TRY(llama.layers, fields.whole("num_hidden_layers", run::max_layers));
    CHAOS_TRY(llama.heads, fields.whole("num_attention_heads", run::max_heads));
    CHAOS_TRY(llama.kv_heads, fields.whole("num_key_value_heads", run::max_heads, llama.heads));
    CHAOS_TRY(llama.head_width,
              fields.whole("head_dim", run::max_head_width, std::max<std::int64_t>(llama.width / llama.heads, 1)));
    CHAOS_TRY(llama.ffn, fields.whole("intermediate_size", run::max_ffn));
    CHAOS_TRY(llama.tied_head, fields.flag("tie_word_embeddings"));
    CHAOS_TRY(llama.norm_epsilon, fields.real("rms_norm_eps", 1e-6));
    CHAOS_TRY(llama.max_context, fields.whole("max_position_embeddings", std::int64_t{1} << 32, 2048));
    CHAOS_TRY(llama.rope, read_rope(config, name));
    llama.bos_token = fields.token("bos_token_id");
    llama.eos_token = fields.token("eos_token_id");
    if (!(llama.norm_epsilon > 0.0)) return Error{name + ": \"rms_norm_eps\" must be positive"};
    if (llama.heads % llama.kv_heads != 0 || llama.head_width % 2 != 0)
        return Error{name + ": num_attention_heads must be a multiple of num_key_value_heads, and head_dim even"};
    return llama;
}

std::string llama_config_json(const run::Llama& llama) {
    const run::Rope& rope = llama.rope;
    json parameters = {{"rope_type", rope.kind}, {"rope_theta", rope.theta}};
    if (rope.kind == "llama3") {
        parameters["factor"] = rope.factor;
        parameters["low_freq_factor"] = rope.low_frequency_factor;
        parameters["high_freq_factor"] = rope.high_frequency_factor;
        parameters["original_max_position_embeddings"] = rope.original_context;
    }
    json config = {
        {"architectures", {"LlamaForCausalLM"}},
        {"model_type", "llama"},
        {"attention_bias", false},
        {"mlp_bias", false},
        {"hidden_act", "silu"},
        {"vocab_size", llama.vocab},
        {"hidden_size", llama.width},
        {"num_hidden_layers", llama.layers},
        {"num_attention_heads", llama.heads},
        {"num_key_value_heads", llama.kv_heads},
        {"head_dim", llama.head_width},
        {"intermediate_size", llama.ffn},
        {"tie_word_embeddings", llama.tied_head},
        {"rms_norm_eps", llama.norm_epsilon},
        {"max_position_embeddings", llama.max_context},
        {"rope_parameters", parameters},
        {"rope_theta", rope.theta},
        {"rope_scaling", rope.kind == "default" ? json() : parameters},
        {"bos_token_id", llama.bos_token ? json(*llama.bos_token) : json()},
        {"eos_token_id", llama.eos_token ? json(*llama.eos_token) : json()},
        {"torch_dtype", "float32"},
        {"dtype", "float32"},
    };
    return config.dump(2) + "\n";
}

std::string byte_tokenizer_json() {
    // Byte-level BPE writes a byte as a printable character: itself where it is one, else the next free one from 256.
    json vocab = json::object();
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        const int point = printable ? byte : next++;
        std::string character;
        if (point < 128) {
            character += static_cast<char>(point);
        } else {
            character += static_cast<char>(0xc0 | (point >> 6));
            character += static_cast<char>(0x80 | (point & 63));
        }
        vocab[character] = byte;
    }
    const json byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
    const json tokenizer = {
        {"version", "1.0"},
        {"truncation", nullptr},
        {"padding", nullptr},
        {"added_tokens", json::array()},
        {"normalizer", nullptr},
        {"pre_tokenizer", byte_level},
        {"post_processor", nullptr},
        {"decoder", byte_level},
        {"model",
         {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", vocab},
          {"merges", json::array()}}},
    };
    return tokenizer.dump(2) + "\n";
}

Result<void> read_weights(const std::filesystem::path& folder, const Manifest& manifest, Arena& arena) {
    CHAOS_TRY(const auto paths, weight_files(folder));
    std::map<std::string, const TensorInfo*> wanted;
    for (const TensorInfo& info : manifest.parameters) wanted[info.name] = &info;
    // Converters leave these behind: the frequencies follow from config.json, and a tied head is the embedding.
    const auto redundant = [&](const std::string& tensor) {
        return tensor.ends_with("rotary_emb.inv_freq") || tensor == "lm_head.weight";
    };
    for (const auto& path : paths) {
        CHAOS_TRY(const auto file, Safetensors::open(path));
        for (const auto& [tensor, entry] : file.tensors()) {
            const auto found = wanted.find(tensor);
            if (found == wanted.end()) {
                if (redundant(tensor)) continue;
                return Error{path.string() + ": tensor " + tensor + " is not part of a llama model, or appears twice"};
            }
            const TensorInfo& info = *found->second;
            if (entry.shape != info.shape)
                return Error{path.string() + ": tensor " + tensor + " has shape " + shape_text(entry.shape) +
                             ", config.json asks for " + shape_text(info.shape)};
            to_floats(entry, arena.parameters().subspan(info.begin, info.elements()));
            wanted.erase(found);
        }
    }
    if (!wanted.empty()) return Error{folder.string() + " lacks the tensor " + wanted.begin()->first};
    return {};
}

Result<void> write_weights(const std::filesystem::path& checkpoint, const std::filesystem::path& folder) {
    CHAOS_TRY(const auto file, open_checkpoint(checkpoint));
    // A map sorts by name; the file keeps the checkpoint's order, which is the model's.
    std::vector<FloatTensor> tensors;
    for (const auto& [name, entry] : file.tensors()) {
        if (name.starts_with("slot") && name.find('/') != std::string::npos) continue;
        if (entry.type != TensorType::f32 || reinterpret_cast<std::uintptr_t>(entry.bytes.data()) % alignof(float) != 0)
            return Error{checkpoint.string() + ": tensor " + name + " is not stored as a checkpoint stores it"};
        tensors.push_back({name,
                           entry.shape,
                           {reinterpret_cast<const float*>(entry.bytes.data()), entry.bytes.size() / sizeof(float)}});
    }
    std::sort(tensors.begin(), tensors.end(),
              [](const FloatTensor& a, const FloatTensor& b) { return a.values.data() < b.values.data(); });
    return write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
}

}  // namespace chaos::state
