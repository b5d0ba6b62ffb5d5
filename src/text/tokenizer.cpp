#include "text/tokenizer.h"

#include "base/file.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/fields.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

namespace chaos::text {
namespace {

constexpr std::size_t max_file_bytes = 256U << 20;

// Workspaces that wait for the next text. What they learned about words is worth keeping, and a lock is held only to
// take one or to put one back, twice per text.
class Workspaces {
public:
    std::unique_ptr<Bpe::Workspace> take() {
        const std::lock_guard lock(mutex_);
        if (idle_.empty()) return std::make_unique<Bpe::Workspace>();
        auto workspace = std::move(idle_.back());
        idle_.pop_back();
        return workspace;
    }

    void put_back(std::unique_ptr<Bpe::Workspace> workspace) {
        const std::lock_guard lock(mutex_);
        idle_.push_back(std::move(workspace));
    }

private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Bpe::Workspace>> idle_;
};

Result<void> check_version(const Field& file) {
    CHAOS_TRY(const std::optional<Field> version, file.find("version"));
    if (!version) return {};
    CHAOS_TRY(const std::string text, version->text());
    if (text != "1.0") return version->error("is '" + text + "', which is not supported (only 1.0)");
    return {};
}

}  // namespace

struct Tokenizer::Parts {
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    Bpe model;
    AddedTokens added;
    PostProcessor post_processor;
    Decoder decoder;
    mutable Workspaces workspaces;

    static Result<std::unique_ptr<const Parts>> parse(const Field& file);
    // Appends the ids of a stretch between added tokens of the text as given.
    void encode(Piece piece, Bpe::Workspace& workspace, std::vector<TokenId>& ids) const;
};

Result<std::unique_ptr<const Tokenizer::Parts>> Tokenizer::Parts::parse(const Field& file) {
    CHAOS_CHECK(check_version(file));
    CHAOS_TRY(const std::optional<Field> normalizer_field, file.find("normalizer"));
    CHAOS_TRY(Normalizer normalizer, Normalizer::parse(normalizer_field));
    CHAOS_TRY(const std::optional<Field> pre_tokenizer_field, file.find("pre_tokenizer"));
    CHAOS_TRY(PreTokenizer pre_tokenizer, PreTokenizer::parse(pre_tokenizer_field));
    CHAOS_TRY(const Field model_field, file.at("model"));
    CHAOS_TRY(Bpe model, Bpe::parse(model_field));
    CHAOS_TRY(const std::optional<Field> added_field, file.find("added_tokens"));
    CHAOS_TRY(AddedTokens added, AddedTokens::parse(added_field, model.vocabulary(), normalizer));
    const auto is_known = [&](TokenId id) {
        return added.token_of(id) != nullptr || model.vocabulary().token_of(id) != nullptr;
    };
    CHAOS_TRY(const std::optional<Field> post_processor_field, file.find("post_processor"));
    CHAOS_TRY(PostProcessor post_processor, PostProcessor::parse(post_processor_field, is_known));
    CHAOS_TRY(const std::optional<Field> decoder_field, file.find("decoder"));
    CHAOS_TRY(Decoder decoder, Decoder::parse(decoder_field));
    return std::unique_ptr<const Parts>(new Parts{std::move(normalizer),
                                                  std::move(pre_tokenizer),
                                                  std::move(model),
                                                  std::move(added),
                                                  std::move(post_processor),
                                                  std::move(decoder),
                                                  {}});
}

void Tokenizer::Parts::encode(Piece piece, Bpe::Workspace& workspace, std::vector<TokenId>& ids) const {
    std::string buffer;
    const Piece normalized = normalizer.normalize(piece, buffer);
    const PreTokenizer::Sink sink = [&](std::string_view word) { model.encode(word, workspace, ids); };
    for (const AddedTokens::Segment& segment : added.split(normalized.text, AddedTokens::Stage::normalized)) {
        if (segment.id) {
            ids.push_back(*segment.id);
        } else {
            pre_tokenizer.split({segment.text, normalized.at_start && segment.offset == 0}, sink);
        }
    }
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Result<Tokenizer> Tokenizer::read(const std::filesystem::path& path) {
    CHAOS_TRY(const std::string content, read_file(path));
    return parse(content, path.string());
}

Result<Tokenizer> Tokenizer::parse(std::string_view json, const std::string& name) {
    if (json.size() > max_file_bytes) {
        return Error{name + " is larger than " + std::to_string(max_file_bytes >> 20) + " MiB, too large a tokenizer"};
    }
    nlohmann::json document;
    try {
        document = nlohmann::json::parse(json);
    } catch (const nlohmann::json::exception& problem) {
        // Without the library's own number of the error, which stands in brackets before it.
        const std::string_view what = problem.what();
        return Error{name + " is not valid JSON: " + std::string(what.substr(what.find("] ") + 2))};
    }
    return from_document(document, name);
}

Result<Tokenizer> Tokenizer::from_document(const nlohmann::json& document, const std::string& name) {
    CHAOS_TRY(std::unique_ptr<const Parts> parts, Parts::parse(Field(document, name)));
    return Tokenizer(std::move(parts));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool add_special) const {
    CHAOS_ASSERT(text.size() <= max_text_bytes);
    std::string valid;
    if (valid_utf8_bytes(text) != text.size()) {
        valid = replace_invalid_utf8(text);
        text = valid;
    }
    std::vector<TokenId> ids;
    auto workspace = parts_->workspaces.take();
    for (const AddedTokens::Segment& segment : parts_->added.split(text, AddedTokens::Stage::as_given)) {
        if (segment.id) {
            ids.push_back(*segment.id);
        } else {
            parts_->encode({segment.text, segment.offset == 0}, *workspace, ids);
        }
    }
    parts_->workspaces.put_back(std::move(workspace));
    return parts_->post_processor.process(std::move(ids), add_special);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
    std::vector<std::string> tokens;
    tokens.reserve(ids.size());
    for (const TokenId id : ids) {
        if (const std::string* spelling = spelling_of(id, skip_special)) tokens.push_back(*spelling);
    }
    return parts_->decoder.decode(std::move(tokens));
}

std::string Tokenizer::bytes_of(TokenId id) const {
    const std::string* spelling = spelling_of(id, false);
    return spelling != nullptr ? parts_->decoder.bytes_of(*spelling) : std::string();
}

const std::string* Tokenizer::spelling_of(TokenId id, bool skip_special) const {
    if (const AddedToken* added = parts_->added.token_of(id)) {
        return skip_special && added->special ? nullptr : &added->normal_form;
    }
    return parts_->model.vocabulary().token_of(id);
}

const Decoder& Tokenizer::decoder() const {
    return parts_->decoder;
}

std::int64_t Tokenizer::vocab_size() const {
    return std::max(parts_->model.vocabulary().end(), parts_->added.end());
}

std::optional<TokenId> Tokenizer::id_of(std::string_view token) const {
    if (const std::optional<TokenId> added = parts_->added.id_of(token)) return added;
    return parts_->model.vocabulary().id_of(token);
}

}  // namespace chaos::text
