#include "infer/model_text.h"

#include "text/gguf_vocabulary.h"

#include <limits>

namespace chaos::infer {
namespace {

// Reads the keys tokenizer.ggml.*.
class Keys {
public:
    explicit Keys(const Gguf& file) : file_(file) {}

    Result<std::string> text(const std::string& key) const {
        CHAOS_TRY(const auto found, file_.text(prefix + key));
        return found.value_or("");
    }
    Result<std::optional<text::TokenId>> token(const std::string& key) const {
        CHAOS_TRY(const auto found, file_.whole(prefix + key));
        if (!found) return std::optional<text::TokenId>();
        CHAOS_TRY(const auto id, narrow(key, *found));
        return std::optional(id);
    }
    Result<std::optional<bool>> flag(const std::string& key) const {
        CHAOS_TRY(const auto found, file_.whole(prefix + key));
        return found ? std::optional(*found != 0) : std::nullopt;
    }
    Result<std::vector<std::string>> texts(const std::string& key) const {
        CHAOS_TRY(const auto* found, list<std::string>(key, "texts"));
        return found != nullptr ? *found : std::vector<std::string>();
    }
    Result<std::vector<float>> reals(const std::string& key) const {
        CHAOS_TRY(const auto* found, list<double>(key, "real numbers"));
        return found != nullptr ? std::vector<float>(found->begin(), found->end()) : std::vector<float>();
    }
    Result<std::vector<std::int32_t>> wholes(const std::string& key) const {
        CHAOS_TRY(const auto* found, list<std::int64_t>(key, "whole numbers"));
        std::vector<std::int32_t> values;
        if (found == nullptr) return values;
        for (const std::int64_t each : *found) {
            CHAOS_TRY(const auto value, narrow(key, each));
            values.push_back(value);
        }
        return values;
    }

private:
    static inline const std::string prefix = "tokenizer.ggml.";

    Result<std::int32_t> narrow(const std::string& key, std::int64_t value) const {
        if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max())
            return Error{file_.name() + ": metadata " + prefix + key + " is out of range"};
        return static_cast<std::int32_t>(value);
    }
    // Null where there is none.
    template <class T>
    Result<const std::vector<T>*> list(const std::string& key, const char* what) const {
        const auto found = file_.metadata().find(prefix + key);
        if (found == file_.metadata().end()) return static_cast<const std::vector<T>*>(nullptr);
        const auto* values = std::get_if<std::vector<T>>(&found->second.content);
        if (values == nullptr) return Error{file_.name() + ": metadata " + prefix + key + " is no list of " + what};
        return values;
    }

    const Gguf& file_;
};

Result<text::GgufVocabulary> vocabulary_of(const Gguf& file) {
    const Keys keys(file);
    text::GgufVocabulary vocabulary;
    CHAOS_TRY(vocabulary.model, keys.text("model"));
    CHAOS_TRY(vocabulary.pre, keys.text("pre"));
    CHAOS_TRY(vocabulary.tokens, keys.texts("tokens"));
    CHAOS_TRY(vocabulary.merges, keys.texts("merges"));
    CHAOS_TRY(vocabulary.scores, keys.reals("scores"));
    CHAOS_TRY(vocabulary.token_types, keys.wholes("token_type"));
    CHAOS_TRY(vocabulary.bos_token_id, keys.token("bos_token_id"));
    CHAOS_TRY(vocabulary.eos_token_id, keys.token("eos_token_id"));
    CHAOS_TRY(vocabulary.unknown_token_id, keys.token("unknown_token_id"));
    CHAOS_TRY(vocabulary.add_bos_token, keys.flag("add_bos_token"));
    CHAOS_TRY(vocabulary.add_eos_token, keys.flag("add_eos_token"));
    CHAOS_TRY(vocabulary.add_space_prefix, keys.flag("add_space_prefix"));
    return vocabulary;
}

// The text of a token whose id the metadata has under the key.
Result<std::optional<std::string>> token_text(const Gguf& gguf, const std::string& key) {
    CHAOS_TRY(const auto id, gguf.whole(key));
    const auto found = gguf.metadata().find("tokenizer.ggml.tokens");
    if (!id || found == gguf.metadata().end()) return std::optional<std::string>();
    const auto* tokens = std::get_if<std::vector<std::string>>(&found->second.content);
    if (tokens == nullptr || *id < 0 || static_cast<std::uint64_t>(*id) >= tokens->size())
        return Error{gguf.name() + ": " + key + " names no token"};
    return std::optional((*tokens)[static_cast<std::size_t>(*id)]);
}

}  // namespace

Result<text::Tokenizer> tokenizer_of(const ModelFile& file) {
    if (file.gguf() == nullptr) return text::Tokenizer::read(file.path() / "tokenizer.json");
    CHAOS_TRY(const auto whole, file.gguf()->text("tokenizer.huggingface.json"));
    if (whole) return text::Tokenizer::parse(*whole, file.path().string() + ": tokenizer.huggingface.json");
    CHAOS_TRY(const auto vocabulary, vocabulary_of(*file.gguf()));
    return text::make_tokenizer(vocabulary, file.path().string());
}

Result<std::optional<text::ChatFormat>> chat_format_of(const ModelFile& file) {
    if (file.gguf() == nullptr) return text::ChatFormat::read(file.path());
    const Gguf& gguf = *file.gguf();
    constexpr std::string_view key = "tokenizer.chat_template";
    std::map<std::string, std::string> sources;
    for (const auto& [name, value] : gguf.metadata()) {
        const auto* source = std::get_if<std::string>(&value.content);
        if (source == nullptr || !name.starts_with(key)) continue;
        if (name == key) sources["default"] = *source;
        if (name.size() > key.size() + 1 && name[key.size()] == '.') sources[name.substr(key.size() + 1)] = *source;
    }
    if (sources.empty()) return std::optional<text::ChatFormat>();
    std::map<std::string, std::string> tokens;
    for (const auto& [name, of] : {std::pair{"bos_token", "bos"}, {"eos_token", "eos"}, {"unk_token", "unknown"}}) {
        CHAOS_TRY(const auto text, token_text(gguf, std::string("tokenizer.ggml.") + of + "_token_id"));
        if (text) tokens[name] = *text;
    }
    CHAOS_TRY(auto format, text::ChatFormat::parse(sources, std::move(tokens), gguf.name()));
    return std::optional(std::move(format));
}

}  // namespace chaos::infer
