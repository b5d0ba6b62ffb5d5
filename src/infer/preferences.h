// What a request likes and dislikes: changes to logits before a token is drawn from them.
#pragma once

#include "base/result.h"
#include "text/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

namespace chaos::infer {

inline constexpr std::size_t max_biased_tokens = 1024;
// Of a bias and of a penalty, either way: beyond this nothing is left of what the model says.
inline constexpr double max_preference = 100.0;

struct Preferences {
    std::map<text::TokenId, double> bias;  // added to a token's logit
    // Taken from the logits of tokens that were drawn before: once, and for each time.
    double presence_penalty = 0.0;
    double frequency_penalty = 0.0;

    [[nodiscard]] bool any() const { return !bias.empty() || presence_penalty != 0.0 || frequency_penalty != 0.0; }
};

// Says what is out of range, or is no token of a model of so many.
[[nodiscard]] Result<void> check(const Preferences& preferences, std::int64_t vocab);

// `preferences` have been checked, and all that was drawn are tokens; `logits` are of all tokens.
void apply(const Preferences& preferences, std::span<const text::TokenId> drawn, std::span<float> logits);

}  // namespace chaos::infer
