// Which pairs of tokens merge into which token, and which merge comes first. An open-addressed table: it is asked about
// every pair of neighbours of every new word.
#pragma once

#include "base/assert.h"
#include "text/tokenizer.h"

#include <bit>
#include <cstdint>
#include <vector>

namespace chaos::text {

class MergeTable {
public:
    struct Merge {
        std::uint32_t rank;  // lower goes first
        TokenId id;
    };

    explicit MergeTable(std::size_t max_merges)
        : max_merges_(max_merges), slots_(std::bit_ceil(2 * max_merges + 2)), mask_(slots_.size() - 1) {}

    // The last merge given for a pair holds.
    void set(TokenId left, TokenId right, Merge merge) {
        Slot& slot = slots_[place_of(left, right)];
        if (slot.pair == no_pair) {
            CHAOS_ASSERT(count_ < max_merges_);
            ++count_;
        }
        slot = {pair_of(left, right), merge};
    }

    // Null where the pair does not merge.
    [[nodiscard]] const Merge* find(TokenId left, TokenId right) const {
        const Slot& slot = slots_[place_of(left, right)];
        return slot.pair == no_pair ? nullptr : &slot.merge;
    }

private:
    static constexpr std::uint64_t no_pair = ~std::uint64_t{0};
    struct Slot {
        std::uint64_t pair = no_pair;
        Merge merge{};
    };

    // Ids are not negative, so no pair equals no_pair.
    static std::uint64_t pair_of(TokenId left, TokenId right) {
        return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
    }

    // The slot of the pair, or the empty one where it would go. At least half of the slots are empty.
    [[nodiscard]] std::size_t place_of(TokenId left, TokenId right) const {
        const std::uint64_t pair = pair_of(left, right);
        std::size_t place = (pair * 0x9E3779B97F4A7C15U >> 32) & mask_;
        while (slots_[place].pair != no_pair && slots_[place].pair != pair) place = (place + 1) & mask_;
        return place;
    }

    std::size_t max_merges_;
    std::size_t count_ = 0;
    std::vector<Slot> slots_;
    std::size_t mask_;
};

}  // namespace chaos::text
