// What a GGUF file says of a model beside its weights, made from a Hugging Face folder.
#include "base/file.h"
#include "infer/model_text.h"
#include "infer/quantize.h"
#include "text/fields.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace chaos::infer {
namespace {

using nlohmann::json;

// Numbers of llama.cpp's file types and token types.
std::uint32_t file_type(StoredType type) {
    switch (type) {
        case StoredType::f16:
            return 1;
        case StoredType::q4_0:
            return 2;
        case StoredType::q8_0:
            return 7;
        default:
            return 0;
    }
}
constexpr std::int64_t normal_token = 1;
constexpr std::int64_t control_token = 3;
constexpr std::int64_t user_token = 4;
constexpr std::int64_t unused_token = 5;
constexpr std::int64_t byte_token = 6;
// The score of what no merge makes.
constexpr double no_score = -1e6;

void add_architecture(const Config& config, GgufMetadata& metadata) {
    const std::string kind = config.kind == "mistral" ? "llama" : config.kind;
    metadata["general.architecture"] = GgufValue::of_text(kind);
    const auto whole = [&](const char* key, std::int64_t value) {
        metadata[kind + "." + key] = GgufValue::of_u32(static_cast<std::uint32_t>(value));
    };
    whole("block_count", config.layers);
    whole("context_length", std::min<std::int64_t>(config.max_context, UINT32_MAX));
    whole("embedding_length", config.width);
    whole("feed_forward_length", config.ffn);
    whole("attention.head_count", config.heads);
    whole("attention.head_count_kv", config.kv_heads);
    whole("attention.key_length", config.head_width);
    whole("attention.value_length", config.head_width);
    whole("rope.dimension_count", config.head_width);
    whole("vocab_size", config.vocab);
    metadata[kind + ".attention.layer_norm_rms_epsilon"] = GgufValue::of_f32(config.norm_epsilon);
    metadata[kind + ".rope.freq_base"] = GgufValue::of_f32(config.rope.theta);
    if (config.rope.linear_factor != 1.0) {
        metadata[kind + ".rope.scaling.type"] = GgufValue::of_text("linear");
        metadata[kind + ".rope.scaling.factor"] = GgufValue::of_f32(config.rope.linear_factor);
    }
}

// How a tokenizer cuts texts into words. Its file may have what nobody reads, nested without end: nothing of it is
// copied or written, which goes down into it step by step.
struct Cutting {
    bool bytes = false;                 // words are made of bytes, not of characters
    bool gpt2 = false;                  // with GPT-2's own pattern
    std::vector<std::string> patterns;  // with these
};

Result<Cutting> cutting_of(const text::Field& tokenizer) {
    Cutting cutting;
    CHAOS_TRY(const auto part, tokenizer.find("pre_tokenizer"));
    if (!part) return cutting;
    CHAOS_TRY(const auto steps, text::steps_of(*part, "pretokenizers"));
    for (const text::Field& step : steps) {
        CHAOS_TRY(const text::Field type, step.at("type"));
        CHAOS_TRY(const std::string name, type.text());
        if (name == "ByteLevel") {
            CHAOS_TRY(const bool gpt2, step.flag_at("use_regex", true));
            cutting.bytes = true;
            cutting.gpt2 = cutting.gpt2 || gpt2;
        } else if (name == "Split") {
            CHAOS_TRY(const text::Field pattern, step.at("pattern"));
            CHAOS_TRY(const auto regex, pattern.find("Regex"));
            if (!regex) continue;
            CHAOS_TRY(auto source, regex->text());
            cutting.patterns.push_back(std::move(source));
        }
    }
    return cutting;
}

// llama.cpp knows pre-tokenizers by name: that of a model that splits words like this one.
std::string pre_tokenizer_name(const Cutting& cutting) {
    const auto has = [&](std::string_view part) {
        return std::ranges::any_of(cutting.patterns,
                                   [&](const std::string& each) { return each.find(part) != std::string::npos; });
    };
    if (!cutting.bytes) return "default";
    if (has("\\p{N}{1,3}")) return "llama-bpe";
    if (has("\\p{N}|")) return "qwen2";
    return cutting.gpt2 ? "gpt-2" : "default";
}

// What is neither true nor false counts as false.
bool flag_of(const json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_boolean() && found->get<bool>();
}

std::string text_of(const json& merge) {
    if (merge.is_string()) return merge.get<std::string>();
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
        return merge[0].get<std::string>() + " " + merge[1].get<std::string>();
    return {};
}

// The tokenizer was read before, so the file has the shape it must have.
void add_tokens(const json& tokenizer, const Config& config, bool byte_level, GgufMetadata& metadata) {
    const auto size = static_cast<std::size_t>(config.vocab);
    std::vector<std::string> tokens(size);
    std::vector<std::int64_t> types(size, unused_token);
    const auto put = [&](const std::string& token, std::int64_t id, std::int64_t type) {
        if (id < 0 || id >= config.vocab) return;
        tokens[static_cast<std::size_t>(id)] = token;
        types[static_cast<std::size_t>(id)] = type;
    };
    const json& model = tokenizer["model"];
    const bool byte_fallback = flag_of(model, "byte_fallback");
    for (const auto& [token, id] : model["vocab"].items()) {
        const bool byte = byte_fallback && token.size() == 6 && token.starts_with("<0x") && token.ends_with(">");
        put(token, id.get<std::int64_t>(), byte ? byte_token : normal_token);
    }
    if (tokenizer.contains("added_tokens"))
        for (const json& added : tokenizer["added_tokens"])
            put(added["content"].get<std::string>(), added["id"].get<std::int64_t>(),
                flag_of(added, "special") ? control_token : user_token);
    for (std::size_t id = 0; id < size; ++id)
        if (types[id] == unused_token) tokens[id] = "[PAD" + std::to_string(id) + "]";

    std::vector<std::string> merges;
    std::map<std::string, double> scores;  // earlier merges are better
    for (const json& merge : model["merges"]) {
        std::string text = text_of(merge);
        const std::size_t space = text.find(' ');
        if (space == std::string::npos) continue;
        scores.emplace(text.substr(0, space) + text.substr(space + 1), -static_cast<double>(merges.size()));
        merges.push_back(std::move(text));
    }
    if (!byte_level) {
        std::vector<double> by_id(size, no_score);
        for (std::size_t id = 0; id < size; ++id)
            if (const auto found = scores.find(tokens[id]); found != scores.end()) by_id[id] = found->second;
        metadata["tokenizer.ggml.scores"] = GgufValue::of_f32s(std::move(by_id));
    }
    metadata["tokenizer.ggml.tokens"] = GgufValue::of_texts(std::move(tokens));
    metadata["tokenizer.ggml.token_type"] = GgufValue::of_i32s(std::move(types));
    metadata["tokenizer.ggml.merges"] = GgufValue::of_texts(std::move(merges));
}

// Of a Hugging Face folder; an empty object where there is none.
Result<json> tokenizer_config(const ModelFile& file) {
    const auto path = file.path() / "tokenizer_config.json";
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return json::object();
    CHAOS_TRY(const std::string content, read_file(path));
    json config = json::parse(content, nullptr, false);
    if (!config.is_object()) return Error{path.string() + " is not a JSON object"};
    return config;
}

// Empty where the key has no text.
std::string text_at(const json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Of a special token: the text itself, or the content of an added token. Empty: there is none.
std::string special_token(const json& config, const char* name) {
    const auto found = config.find(name);
    return found != config.end() && found->is_object() ? text_at(*found, "content") : text_at(config, name);
}

// All of them in a key of our own, and in GGUF's as many as it has keys for: the one that the tokenizer names is the
// end of a text.
void add_end_tokens(std::vector<std::int64_t> ends, const text::Tokenizer& tokenizer, const std::string& named,
                    GgufMetadata& metadata) {
    if (ends.empty()) return;
    metadata[std::string(end_tokens_key)] = GgufValue::of_i32s(ends);
    const auto take = [&](const char* key, std::vector<std::int64_t>::iterator end) {
        if (end == ends.end() || metadata.contains(key)) return;
        metadata[key] = GgufValue::of_u32(static_cast<std::uint32_t>(*end));
        ends.erase(end);
    };
    const auto named_like = [&](std::string_view text) {
        const auto id = tokenizer.id_of(text);
        return id ? std::find(ends.begin(), ends.end(), *id) : ends.end();
    };
    constexpr const char* text_end = "tokenizer.ggml.eos_token_id";
    constexpr const char* turn_end = "tokenizer.ggml.eot_token_id";
    constexpr const char* message_end = "tokenizer.ggml.eom_token_id";
    take(text_end, named_like(named));
    take(message_end, named_like("<|eom_id|>"));
    for (const char* key : {text_end, turn_end, message_end}) take(key, ends.begin());
}

Result<void> add_tokenizer(const ModelFile& file, GgufMetadata& metadata) {
    const auto path = file.path() / "tokenizer.json";
    CHAOS_TRY(std::string content, read_file(path));
    CHAOS_TRY(const auto tokenizer, text::Tokenizer::parse(content, path.string()));
    const json parsed = json::parse(content, nullptr, false);
    CHAOS_TRY(const Cutting cutting, cutting_of(text::Field(parsed, path.string())));
    metadata["tokenizer.ggml.model"] = GgufValue::of_text(cutting.bytes ? "gpt2" : "llama");
    metadata["tokenizer.ggml.pre"] = GgufValue::of_text(pre_tokenizer_name(cutting));
    const Config& config = file.config();
    add_tokens(parsed, config, cutting.bytes, metadata);
    const auto token = [&](const char* key, std::int64_t id) {
        metadata[key] = GgufValue::of_u32(static_cast<std::uint32_t>(id));
    };
    if (config.bos_token) token("tokenizer.ggml.bos_token_id", *config.bos_token);
    CHAOS_TRY(const json settings, tokenizer_config(file));
    add_end_tokens(config.eos_tokens, tokenizer, special_token(settings, "eos_token"), metadata);
    const json& model = parsed["model"];
    if (const auto unknown = model.find("unk_token"); unknown != model.end() && unknown->is_string())
        if (const auto id = tokenizer.id_of(unknown->get_ref<const std::string&>()))
            token("tokenizer.ggml.unknown_token_id", *id);
    const auto added = tokenizer.encode("", true);
    metadata["tokenizer.ggml.add_bos_token"] =
        GgufValue::of_flag(config.bos_token && !added.empty() && added.front() == *config.bos_token);
    metadata["tokenizer.huggingface.json"] = GgufValue::of_text(std::move(content));
    return {};
}

// As text/chat.h has them; what is no text is no template.
Result<void> add_chat_templates(const ModelFile& file, GgufMetadata& metadata) {
    std::map<std::string, std::string> sources;
    CHAOS_TRY(const json config, tokenizer_config(file));
    const auto field = config.find("chat_template");
    if (field != config.end() && field->is_array()) {
        for (const json& item : *field) sources[text_at(item, "name")] = text_at(item, "template");
    } else {
        sources["default"] = text_at(config, "chat_template");
    }
    std::error_code error;
    if (const auto path = file.path() / "chat_template.jinja"; std::filesystem::exists(path, error)) {
        sources.clear();
        CHAOS_TRY(sources["default"], read_file(path));
    }
    if (const auto path = file.path() / "additional_chat_templates" / "tool_use.jinja";
        std::filesystem::exists(path, error)) {
        CHAOS_TRY(sources["tool_use"], read_file(path));
    }
    for (auto& [name, source] : sources) {
        if (name.empty() || source.empty()) continue;
        const std::string key = "tokenizer.chat_template" + (name == "default" ? "" : "." + name);
        metadata[key] = GgufValue::of_text(std::move(source));
    }
    return {};
}

}  // namespace

Result<GgufMetadata> gguf_metadata(const ModelFile& file, StoredType type) {
    GgufMetadata metadata;
    if (file.gguf() != nullptr) {
        metadata = file.gguf()->metadata();
        for (const char* key : {"general.alignment", "split.no", "split.count", "split.tensors.count"})
            metadata.erase(key);
    } else {
        std::filesystem::path name = file.path().filename();
        if (name.empty()) name = file.path().parent_path().filename();
        metadata["general.type"] = GgufValue::of_text("model");
        metadata["general.name"] = GgufValue::of_text(name.string());
        add_architecture(file.config(), metadata);
        CHAOS_CHECK(add_tokenizer(file, metadata));
        CHAOS_CHECK(add_chat_templates(file, metadata));
    }
    metadata["general.file_type"] = GgufValue::of_u32(file_type(type));
    metadata["general.quantization_version"] = GgufValue::of_u32(2);
    return metadata;
}

}  // namespace chaos::infer
