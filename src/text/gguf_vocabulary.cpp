#include "text/gguf_vocabulary.h"

#include "base/words.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_map>

namespace chaos::text {
namespace {

using nlohmann::json;

// The numbers are the file's.
enum class TokenType : std::int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

constexpr std::string_view metaspace = "\xE2\x96\x81";
// A SentencePiece token longer than that is a file's mistake; it keeps the search for merges short.
constexpr std::size_t max_merged_bytes = 1024;

// How a kind of byte-level tokenizer cuts texts into words.
struct Cut {
    std::string_view pattern = "";  // empty: GPT-2's own
    bool digits_apart = false;
    bool composes = false;  // NFC
    bool ignores_merges = false;
    bool adds_bos = false;
};

constexpr Cut llama3_cut = {
    .pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
               R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
    .ignores_merges = true,
    .adds_bos = true};
constexpr Cut qwen2_cut = {
    .pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
               R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
    .composes = true};
constexpr Cut tekken_cut = {.pattern =
                                R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                                R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                                R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                            .ignores_merges = true,
                            .adds_bos = true};
constexpr Cut gpt2_cut = {};
constexpr Cut smollm_cut = {.digits_apart = true};

struct NamedCut {
    std::string_view name;
    const Cut* cut;
};
constexpr std::array<NamedCut, 20> cuts = {{{"gpt-2", &gpt2_cut},
                                            {"default", &gpt2_cut},
                                            {"", &gpt2_cut},
                                            {"llama-bpe", &llama3_cut},
                                            {"llama3", &llama3_cut},
                                            {"llama-v3", &llama3_cut},
                                            {"pixtral", &llama3_cut},
                                            {"falcon3", &llama3_cut},
                                            {"falcon-h1", &llama3_cut},
                                            {"midm-2.0", &llama3_cut},
                                            {"lfm2", &llama3_cut},
                                            {"qwen2", &qwen2_cut},
                                            {"deepseek-r1-qwen", &qwen2_cut},
                                            {"kormo", &qwen2_cut},
                                            {"f2llmv2", &qwen2_cut},
                                            {"megrez", &qwen2_cut},
                                            {"smollm", &smollm_cut},
                                            {"starcoder", &smollm_cut},
                                            {"refact", &smollm_cut},
                                            {"tekken", &tekken_cut}}};

class Maker {
public:
    Maker(const GgufVocabulary& vocabulary, const std::string& name) : vocabulary_(vocabulary), name_(name) {}

    Result<json> make() {
        CHAOS_CHECK(check());
        document_ = {{"version", "1.0"}};
        if (vocabulary_.model == "gpt2") {
            CHAOS_CHECK(make_byte_level());
        } else {
            CHAOS_CHECK(make_sentence_piece());
        }
        add_tokens();
        add_post_processor();
        return std::move(document_);
    }

private:
    [[nodiscard]] Error error(const std::string& key, const std::string& sentence) const {
        return Error{name_ + ": tokenizer.ggml." + key + " " + sentence};
    }

    Result<void> check() {
        constexpr std::array<std::string_view, 2> models = {"gpt2", "llama"};
        if (std::ranges::find(models, vocabulary_.model) == models.end()) {
            return error("model", "is '" + printable(vocabulary_.model) + "', which is not supported (only " +
                                      one_of(models) + ")");
        }
        const std::size_t count = vocabulary_.tokens.size();
        if (count == 0) return error("tokens", "is empty");
        if (count > static_cast<std::size_t>(max_tokens)) {
            return error("tokens", "has more than " + std::to_string(max_tokens) + " tokens");
        }
        for (std::size_t id = 0; id < count; ++id) {
            const std::string& token = vocabulary_.tokens[id];
            if (valid_utf8_bytes(token) != token.size()) {
                return error("tokens", "has a token that is not UTF-8: number " + std::to_string(id));
            }
            // Of tokens with the same text the first keeps it.
            ids_.emplace(token, static_cast<TokenId>(id));
        }
        for (std::size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
            const std::string& merge = vocabulary_.merges[rank];
            if (valid_utf8_bytes(merge) != merge.size()) {
                return error("merges", "has a merge that is not UTF-8: number " + std::to_string(rank));
            }
        }
        if (!vocabulary_.token_types.empty() && vocabulary_.token_types.size() != count) {
            return error("token_type", "has " + std::to_string(vocabulary_.token_types.size()) + " entries for " +
                                           std::to_string(count) + " tokens");
        }
        for (const auto& [key, id] :
             {std::pair{"bos_token_id", vocabulary_.bos_token_id}, std::pair{"eos_token_id", vocabulary_.eos_token_id},
              std::pair{"unknown_token_id", vocabulary_.unknown_token_id}}) {
            if (id && (*id < 0 || static_cast<std::size_t>(*id) >= count)) {
                return error(key, "is " + std::to_string(*id) + ", the id of no token");
            }
        }
        return {};
    }

    [[nodiscard]] TokenType type_of(std::size_t id) const {
        return vocabulary_.token_types.empty() ? TokenType::normal : TokenType{vocabulary_.token_types[id]};
    }

    // The id that a text has among the tokens a model was trained with.
    [[nodiscard]] std::optional<TokenId> normal_id(std::string_view text) const {
        const auto found = ids_.find(text);
        if (found == ids_.end() || type_of(static_cast<std::size_t>(found->second)) != TokenType::normal) {
            return std::nullopt;
        }
        return found->second;
    }

    [[nodiscard]] json model(json merges) const {
        json vocab = json::object();
        for (const auto& [token, id] : ids_) vocab.emplace(token, static_cast<std::uint32_t>(id));
        return {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", std::move(merges)}};
    }

    Result<void> make_byte_level() {
        const auto* const named = std::ranges::find(cuts, vocabulary_.pre, &NamedCut::name);
        if (named == cuts.end()) {
            std::vector<std::string_view> names;
            for (const NamedCut& one : cuts)
                if (!one.name.empty()) names.push_back(one.name);
            return error(
                "pre", "is '" + printable(vocabulary_.pre) + "', which is not supported (only " + one_of(names) + ")");
        }
        const Cut& cut = *named->cut;
        adds_bos_ = cut.adds_bos;
        document_["model"] = model(vocabulary_.merges);
        document_["model"]["ignore_merges"] = cut.ignores_merges;
        if (cut.composes) document_["normalizer"] = {{"type", "NFC"}};
        json steps = json::array();
        if (cut.digits_apart) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
        if (!cut.pattern.empty()) {
            steps.push_back({{"type", "Split"},
                             {"pattern", {{"Regex", cut.pattern}}},
                             {"behavior", "Isolated"},
                             {"invert", false}});
        }
        steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", cut.pattern.empty()}});
        document_["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
        document_["decoder"] = {{"type", "ByteLevel"}};
        return {};
    }

    Result<void> make_sentence_piece() {
        const std::size_t count = vocabulary_.tokens.size();
        if (vocabulary_.scores.size() != count) {
            return error("scores", "has " + std::to_string(vocabulary_.scores.size()) + " entries for " +
                                       std::to_string(count) + " tokens");
        }
        adds_bos_ = true;
        CHAOS_TRY(json merges, merges_by_score());
        document_["model"] = model(std::move(merges));
        document_["model"]["byte_fallback"] = true;
        document_["model"]["fuse_unk"] = true;
        const auto unknown = static_cast<std::size_t>(vocabulary_.unknown_token_id.value_or(0));
        document_["model"]["unk_token"] = vocabulary_.tokens[unknown];
        const bool begins_with_space = vocabulary_.add_space_prefix.value_or(true);
        const json spaces = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", metaspace}};
        json normalizers = json::array();
        if (begins_with_space) normalizers.push_back({{"type", "Prepend"}, {"prepend", metaspace}});
        normalizers.push_back(spaces);
        document_["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
        json decoders = {{{"type", "Replace"}, {"pattern", {{"String", metaspace}}}, {"content", " "}},
                         {{"type", "ByteFallback"}},
                         {{"type", "Fuse"}}};
        if (begins_with_space) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
        document_["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
        return {};
    }

    // All ways to make a token of two others, the best tokens first.
    Result<json> merges_by_score() {
        std::vector<std::size_t> order;
        for (std::size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
            if (type_of(id) == TokenType::normal) order.push_back(id);
        }
        const auto rank = [&](std::size_t id) { return vocabulary_.scores[id]; };
        for (const std::size_t id : order) {
            if (rank(id) != rank(id)) return error("scores", "has one that is no number: " + std::to_string(id));
        }
        std::ranges::sort(order,
                          [&](std::size_t a, std::size_t b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a < b; });
        json merges = json::array();
        struct Pair {
            TokenId left;
            TokenId right;
            std::size_t border;
        };
        for (const std::size_t id : order) {
            const std::string_view token = vocabulary_.tokens[id];
            if (token.empty() || token.size() > max_merged_bytes) continue;
            std::vector<Pair> pairs;
            for (std::size_t at = character_at(token, 0).bytes; at < token.size();
                 at += character_at(token, at).bytes) {
                const auto left = normal_id(token.substr(0, at));
                const auto right = normal_id(token.substr(at));
                if (left && right) pairs.push_back({*left, *right, at});
            }
            std::ranges::sort(pairs, [](const Pair& a, const Pair& b) {
                return std::pair(a.left, a.right) < std::pair(b.left, b.right);
            });
            for (const Pair& pair : pairs) {
                merges.push_back({std::string(token.substr(0, pair.border)), std::string(token.substr(pair.border))});
            }
        }
        return merges;
    }

    void add_tokens() {
        json added = json::array();
        for (std::size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
            const TokenType type = type_of(id);
            const bool is_special = type == TokenType::control || type == TokenType::unknown;
            if (!is_special && type != TokenType::user_defined) continue;
            if (ids_.at(vocabulary_.tokens[id]) != static_cast<TokenId>(id)) continue;
            added.push_back({{"id", id},
                             {"content", vocabulary_.tokens[id]},
                             {"single_word", false},
                             {"lstrip", false},
                             {"rstrip", false},
                             {"normalized", false},
                             {"special", is_special}});
        }
        document_["added_tokens"] = std::move(added);
    }

    void add_post_processor() {
        json parts = json::array();
        json tokens = json::object();
        const auto add = [&](std::optional<TokenId> id) {
            const std::string& token = vocabulary_.tokens[static_cast<std::size_t>(*id)];
            parts.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
            tokens[token] = {{"id", token}, {"ids", json::array({*id})}, {"tokens", json::array({token})}};
        };
        if (vocabulary_.bos_token_id && vocabulary_.add_bos_token.value_or(adds_bos_)) add(vocabulary_.bos_token_id);
        parts.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
        if (vocabulary_.eos_token_id && vocabulary_.add_eos_token.value_or(false)) add(vocabulary_.eos_token_id);
        document_["post_processor"] = {
            {"type", "TemplateProcessing"}, {"single", std::move(parts)}, {"special_tokens", std::move(tokens)}};
    }

    const GgufVocabulary& vocabulary_;
    const std::string& name_;
    std::map<std::string_view, TokenId> ids_;
    bool adds_bos_ = false;  // where the file does not say it
    json document_;
};

}  // namespace

Result<Tokenizer> make_tokenizer(const GgufVocabulary& vocabulary, const std::string& name) {
    CHAOS_TRY(const json document, Maker(vocabulary, name).make());
    return Tokenizer::from_document(document, name);
}

}  // namespace chaos::text
