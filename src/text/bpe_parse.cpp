// Reading the model from a tokenizer file.
#include "text/bpe.h"
#include "text/utf8.h"

#include <nlohmann/json.hpp>

namespace chaos::text {
namespace {

constexpr std::size_t max_merges = 2 * std::size_t{max_tokens};

// Options of BPE that would change the result, and that none of the models we serve uses.
Result<void> refuse_other_options(const Field& field) {
    for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        CHAOS_TRY(const std::optional<Field> option, field.find(key));
        if (!option) continue;
        CHAOS_TRY(const std::string text, option->text());
        if (!text.empty()) return option->error("is not supported unless it is empty");
    }
    CHAOS_TRY(const std::optional<Field> dropout, field.find("dropout"));
    if (dropout && dropout->json() != 0) return dropout->error("is not supported unless it is 0");
    return {};
}

std::string byte_token(unsigned byte) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    return std::string("<0x") + digits[byte >> 4] + digits[byte & 15U] + ">";
}

}  // namespace

Result<Bpe> Bpe::parse(const Field& field) {
    CHAOS_TRY(const std::optional<Field> type, field.find("type"));
    // Files from before the type was written down are recognised by their merges.
    if (type) {
        CHAOS_TRY(const std::string name, type->text());
        constexpr std::array<std::string_view, 1> supported = {"BPE"};
        if (name != "BPE") return type->unsupported(name, supported);
    }
    CHAOS_CHECK(refuse_other_options(field));
    CHAOS_TRY(const Field tokens, field.at("vocab"));
    CHAOS_TRY(const Field merges, field.at("merges"));
    CHAOS_TRY(Vocabulary vocabulary, Vocabulary::parse(tokens));
    Bpe bpe(std::move(vocabulary));
    bpe.find_characters();
    CHAOS_CHECK(bpe.parse_options(field));
    CHAOS_CHECK(bpe.parse_merges(merges));
    return bpe;
}

void Bpe::find_characters() {
    for (TokenId id = 0; id < vocabulary_.end(); ++id) {
        const std::string* token = vocabulary_.token_of(id);
        if (token == nullptr || token->empty()) continue;
        const Character first = character_at(*token, 0);
        if (first.bytes != token->size()) continue;
        if (first.code >= character_ids_.size()) character_ids_.resize(first.code + 1, -1);
        character_ids_[first.code] = id;
    }
    for (unsigned byte = 0; byte < 256; ++byte) byte_ids_[byte] = vocabulary_.id_of(byte_token(byte)).value_or(-1);
}

Result<void> Bpe::parse_options(const Field& field) {
    CHAOS_TRY(fuse_unknown_, field.flag_at("fuse_unk", false));
    CHAOS_TRY(byte_fallback_, field.flag_at("byte_fallback", false));
    CHAOS_TRY(ignore_merges_, field.flag_at("ignore_merges", false));
    CHAOS_TRY(const std::optional<Field> unknown, field.find("unk_token"));
    if (!unknown) return {};
    CHAOS_TRY(const std::string token, unknown->text());
    // Old byte-level files write "" for none.
    if (token.empty()) return {};
    unknown_ = vocabulary_.id_of(token);
    if (!unknown_) return unknown->error("is '" + token + "', which is not in the vocabulary");
    return {};
}

Result<void> Bpe::parse_merges(const Field& field) {
    const nlohmann::json& list = field.json();
    if (!list.is_array()) return field.error("must be an array");
    if (list.size() > max_merges) return field.error("has more than " + std::to_string(max_merges) + " merges");
    merges_ = MergeTable(list.size());
    joints_.assign(joint_bits / 64, 0);
    for (std::size_t rank = 0; rank < list.size(); ++rank) {
        const nlohmann::json& merge = list[rank];
        const auto malformed = [&] {
            return field.error_in_item(rank, "must be two tokens: \"a b\" or [\"a\", \"b\"]");
        };
        if (merge.is_string()) {
            const auto& text = merge.get_ref<const std::string&>();
            if (text.starts_with("#version")) continue;
            const std::size_t space = text.find(' ');
            if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) return malformed();
            CHAOS_CHECK(add_merge(field, rank, std::string_view(text).substr(0, space),
                                  std::string_view(text).substr(space + 1)));
        } else {
            if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
                return malformed();
            }
            CHAOS_CHECK(
                add_merge(field, rank, merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()));
        }
    }
    return {};
}

Result<void> Bpe::add_merge(const Field& field, std::size_t rank, std::string_view left, std::string_view right) {
    const std::string merged = std::string(left) + std::string(right);
    for (const std::string_view token : {left, right, std::string_view(merged)}) {
        if (token.empty() || !vocabulary_.id_of(token)) {
            return field.error_in_item(rank,
                                       "needs the token '" + std::string(token) + "', which is not in the vocabulary");
        }
    }
    merges_.set(*vocabulary_.id_of(left), *vocabulary_.id_of(right),
                {static_cast<std::uint32_t>(rank), *vocabulary_.id_of(merged)});
    const TokenId before = id_of_character(character_before(left, left.size()).code);
    const TokenId after = id_of_character(character_at(right, 0).code);
    const std::size_t bit = bit_of(before, after);
    joints_[bit / 64] |= std::uint64_t{1} << bit % 64;
    return {};
}

}  // namespace chaos::text
