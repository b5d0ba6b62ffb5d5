// The words seen lately and their ids: most words of a text are ones it had before. Its size is bounded; when it is
// full it starts anew, which costs less than keeping track of ages.
#pragma once

#include "text/tokenizer.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::text {

class WordCache {
public:
    static constexpr std::size_t max_word_bytes = 64;

    // The view holds until the next put().
    [[nodiscard]] std::optional<std::span<const TokenId>> find(std::string_view word) const;
    // `word` is at most max_word_bytes long and makes no more ids than it has bytes.
    void put(std::string_view word, std::span<const TokenId> ids);

private:
    static constexpr std::size_t slot_count = 1U << 16;
    static constexpr std::size_t max_words = slot_count / 2;
    struct Slot {
        std::uint32_t hash = 0;
        std::uint32_t word_begin = 0;
        std::uint32_t ids_begin = 0;
        std::uint16_t word_bytes = 0;  // 0: empty
        std::uint16_t id_count = 0;
    };

    // The slot of `word`, or the empty one where it would go.
    [[nodiscard]] std::size_t place_of(std::string_view word, std::uint32_t hash) const;

    std::vector<Slot> slots_;
    std::size_t count_ = 0;
    std::string words_;
    std::vector<TokenId> ids_;
};

}  // namespace chaos::text
