// Speculation without a second model: what followed the last time the same few tokens stood in the context is likely to
// follow again. The model computes the guess together with the token before it, for little more than one token costs,
// and only what it would have said itself is kept: the tokens are the same with and without.
#pragma once

#include "text/tokenizer.h"

#include <cstddef>
#include <span>
#include <vector>

namespace chaos::infer {

class Drafter {
public:
    static constexpr std::size_t max_draft = 8;

    // A guess at what follows `tokens`, no longer than `room`; empty where nothing is known, or where guesses have been
    // wrong of late.
    [[nodiscard]] std::vector<text::TokenId> guess(std::span<const text::TokenId> tokens, std::size_t room);
    // How many tokens of the last guess were right.
    void learn(std::size_t guessed, std::size_t right);

private:
    std::size_t limit_ = max_draft / 2;
    std::size_t rest_ = 0;  // tokens until the next guess
};

}  // namespace chaos::infer
