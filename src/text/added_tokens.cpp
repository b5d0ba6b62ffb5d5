#include "text/added_tokens.h"

#include "text/characters.h"
#include "text/utf8.h"

#include <algorithm>

namespace chaos::text {
namespace {

constexpr std::size_t max_content_bytes = 4096;

Result<AddedToken> parse_token(const Field& field, const Normalizer& normalizer) {
    AddedToken token;
    CHAOS_TRY(const Field content, field.at("content"));
    CHAOS_TRY(token.content, content.text());
    if (token.content.size() > max_content_bytes) {
        return content.error("is longer than " + std::to_string(max_content_bytes) + " bytes");
    }
    CHAOS_TRY(token.single_word, field.flag_at("single_word"));
    CHAOS_TRY(token.lstrip, field.flag_at("lstrip"));
    CHAOS_TRY(token.rstrip, field.flag_at("rstrip"));
    CHAOS_TRY(token.normalized, field.flag_at("normalized"));
    CHAOS_TRY(token.special, field.flag_at("special"));
    token.normal_form = token.content;
    if (token.normalized) {
        std::string buffer;
        token.normal_form = normalizer.normalize({token.content, true}, buffer).text;
    }
    return token;
}

// Where the white space that ends at `end` begins.
std::size_t white_space_before(std::string_view text, std::size_t end) {
    while (end > 0) {
        const Character character = character_before(text, end);
        if (!is_white_space(character.code)) break;
        end -= character.bytes;
    }
    return end;
}

std::size_t white_space_after(std::string_view text, std::size_t begin) {
    while (begin < text.size()) {
        const Character character = character_at(text, begin);
        if (!is_white_space(character.code)) break;
        begin += character.bytes;
    }
    return begin;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
    const bool free_before = begin == 0 || !is_word_character(character_before(text, begin).code);
    const bool free_after = end == text.size() || !is_word_character(character_at(text, end).code);
    return free_before && free_after;
}

}  // namespace

Result<AddedTokens> AddedTokens::parse(const std::optional<Field>& field, const Vocabulary& vocabulary,
                                       const Normalizer& normalizer) {
    AddedTokens result;
    if (!field) return result;
    CHAOS_TRY(const std::vector<Field> items, field->items());
    // Hugging Face does not believe the ids in the file: a token of the vocabulary keeps its id there, any other gets
    // the next one after the vocabulary. A file that says something else would mean different ids to different readers.
    auto next = static_cast<TokenId>(vocabulary.size());
    for (const Field& item : items) {
        CHAOS_TRY(AddedToken token, parse_token(item, normalizer));
        if (token.content.empty()) continue;
        CHAOS_TRY(const Field id_field, item.at("id"));
        CHAOS_TRY(const std::int64_t written, id_field.integer(0, max_tokens - 1));
        std::optional<TokenId> id = result.id_of(token.content);
        if (!id) id = vocabulary.id_of(token.content);
        if (!id) id = next++;
        if (*id != written) {
            return id_field.error("is " + std::to_string(written) + ", but '" + token.content + "' has the id " +
                                  std::to_string(*id) + " by the vocabulary and its place among the added tokens");
        }
        result.ids_[token.content] = *id;
        result.end_ = std::max(result.end_, *id + 1);
        if (const AddedToken* before = result.token_of(*id)) token.special = token.special || before->special;
        result.tokens_[*id] = std::move(token);
    }
    // In the order of ids: of two tokens with the same normal form the lower id is found.
    for (const auto& [id, token] : result.tokens_) {
        (token.normalized ? result.normalized_ : result.as_given_).add(token.normal_form, id);
    }
    return result;
}

std::vector<AddedTokens::Segment> AddedTokens::split(std::string_view text, Stage stage) const {
    const Trie& trie = stage == Stage::as_given ? as_given_ : normalized_;
    std::vector<Segment> segments;
    const auto emit = [&](std::size_t begin, std::size_t end, std::optional<TokenId> id) {
        if (begin < end) segments.push_back({text.substr(begin, end - begin), begin, id});
    };
    std::size_t covered = 0;
    if (!trie.empty()) {
        std::size_t at = trie.next_start(text, 0);
        while (at < text.size()) {
            const std::optional<Trie::Match> match = trie.longest_at(text, at);
            if (!match) {
                at = trie.next_start(text, at + 1);
                continue;
            }
            const AddedToken& token = tokens_.at(match->id);
            std::size_t begin = at;
            std::size_t end = at + match->bytes;
            // The search goes on behind the token itself, even where it is passed over or takes more along.
            at = trie.next_start(text, end);
            if (token.single_word && !stands_alone(text, begin, end)) continue;
            if (token.lstrip) begin = std::max(white_space_before(text, begin), covered);
            if (token.rstrip) end = white_space_after(text, end);
            emit(covered, begin, std::nullopt);
            emit(begin, end, match->id);
            covered = end;
        }
    }
    emit(covered, text.size(), std::nullopt);
    return segments;
}

const AddedToken* AddedTokens::token_of(TokenId id) const {
    const auto found = tokens_.find(id);
    return found == tokens_.end() ? nullptr : &found->second;
}

std::optional<TokenId> AddedTokens::id_of(std::string_view content) const {
    const auto found = ids_.find(std::string(content));
    if (found == ids_.end()) return std::nullopt;
    return found->second;
}

}  // namespace chaos::text
