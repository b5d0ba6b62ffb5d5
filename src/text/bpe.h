// The model: byte-pair encoding. A word starts as one token per character; then, again and again, the two neighbours
// whose merge has the lowest rank (the leftmost of equals) become one token, until no two neighbours merge.
#pragma once

#include "base/result.h"
#include "text/fields.h"
#include "text/merge_table.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"
#include "text/word_cache.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace chaos::text {

class Bpe {
public:
    // Memory that one encoding at a time may use; kept between words and texts for speed. It serves one model only.
    class Workspace {
        friend class Bpe;
        struct Symbol {
            TokenId id;
            std::int32_t previous;
            std::int32_t next;
        };
        struct Candidate {
            std::uint64_t order;  // the rank, then the position: the lowest goes first
            TokenId id;
            [[nodiscard]] std::int32_t position() const { return static_cast<std::int32_t>(order & 0xFFFFFFFFU); }
        };
        WordCache cache;
        std::vector<Symbol> symbols;
        std::vector<Candidate> queue;
    };

    static Result<Bpe> parse(const Field& field);

    // Appends the ids of `word` to `ids`.
    void encode(std::string_view word, Workspace& workspace, std::vector<TokenId>& ids) const;

    [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

private:
    explicit Bpe(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

    void find_characters();
    Result<void> parse_options(const Field& field);
    Result<void> parse_merges(const Field& field);
    Result<void> add_merge(const Field& field, std::size_t rank, std::string_view left, std::string_view right);

    // -1 for a character that is no token.
    [[nodiscard]] TokenId id_of_character(char32_t code) const {
        return code < character_ids_.size() ? character_ids_[code] : -1;
    }
    // Whether a merge may join two tokens of which one ends with the character `left` and the other begins with
    // `right`. True by mistake now and then, never false by mistake.
    [[nodiscard]] bool may_join(TokenId left, TokenId right) const {
        const std::size_t bit = bit_of(left, right);
        return (joints_[bit / 64] >> bit % 64 & 1U) != 0;
    }
    static std::size_t bit_of(TokenId left, TokenId right) {
        const std::uint64_t pair =
            std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
        return static_cast<std::size_t>(pair * 0x9E3779B97F4A7C15U >> 40) % joint_bits;
    }

    void encode_short(std::string_view word, Workspace& workspace, std::vector<TokenId>& ids) const;
    void encode_parts(std::string_view word, Workspace& workspace, std::vector<TokenId>& ids) const;
    void encode_whole(std::string_view word, Workspace& workspace, std::vector<TokenId>& ids) const;
    void start_symbols(std::string_view word, Workspace& workspace) const;
    void merge_symbols(Workspace& workspace) const;

    static constexpr std::size_t joint_bits = 1U << 20;

    Vocabulary vocabulary_;
    MergeTable merges_{0};
    std::optional<TokenId> unknown_;
    bool fuse_unknown_ = false;
    bool byte_fallback_ = false;
    bool ignore_merges_ = false;
    std::vector<TokenId> character_ids_;   // by code point
    std::array<TokenId, 256> byte_ids_{};  // of "<0x00>" and so on; -1 where there is none
    std::vector<std::uint64_t> joints_;    // a set of bits; see may_join
};

}  // namespace chaos::text
