// Which token comes next. A pure function of the logits, the settings and the token's number, so that it makes no
// difference how tokens were computed: one by one, several at once by speculation, or beside others.
#pragma once

#include "base/result.h"
#include "text/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chaos::infer {

using text::TokenId;

// Applied in this order; all that remains keeps its proportions.
struct Sampling {
    double temperature = 0.0;  // 0: always the most likely token
    std::int64_t top_k = 0;    // only the k most likely; 0: all
    double top_p = 1.0;        // only the most likely that together have this probability; the first of them always
    double min_p = 0.0;        // only those at least this times as likely as the most likely
    std::uint64_t seed = 0;
};

// Says what is out of range.
[[nodiscard]] Result<void> check(const Sampling& sampling);

struct Likelihood {
    TokenId token = 0;
    double logprob = 0.0;  // by the model, whatever the settings
};

struct Sampled {
    TokenId token = 0;
    double logprob = 0.0;
    std::vector<Likelihood> top;  // the most likely tokens, if asked for, best first
};

// That are listed of one.
inline constexpr std::size_t max_top = 100;

// `index`: how many tokens were drawn with this seed before. An error where the logits are not numbers. `top`: how many
// of the most likely tokens to list; without, and without `logprob`, no logarithms are taken.
struct Wanted {
    bool logprob = false;
    std::size_t top = 0;  // at most max_top
};
// How many of the greatest logits the choice depends on: those of the other tokens may be anything that is less. 0:
// all.
[[nodiscard]] std::size_t needed(const Sampling& sampling, const Wanted& wanted);
[[nodiscard]] Result<Sampled> sample(std::span<const float> logits, const Sampling& sampling, std::uint64_t index,
                                     const Wanted& wanted);

}  // namespace chaos::infer
