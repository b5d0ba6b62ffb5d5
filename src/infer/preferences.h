// What a request likes and dislikes: changes to logits before a token is drawn from them.
#pragma once

#include "text/tokenizer.h"

#include <map>
#include <span>

namespace chaos::infer {

struct Preferences {
    std::map<text::TokenId, double> bias;  // added to a token's logit
    // Taken from the logits of tokens that were drawn before: once, and for each time.
    double presence_penalty = 0.0;
    double frequency_penalty = 0.0;

    [[nodiscard]] bool any() const { return !bias.empty() || presence_penalty != 0.0 || frequency_penalty != 0.0; }
};

void apply(const Preferences& preferences, std::span<const text::TokenId> drawn, std::span<float> logits);

}  // namespace chaos::infer
