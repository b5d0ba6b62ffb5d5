// How likely a model finds a text.
#pragma once

#include "base/result.h"
#include "infer/engine.h"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace chaos::infer {

struct Evaluation {
    double mean_nll = 0.0;           // negative log-likelihood per predicted token, in nats
    std::size_t predicted = 0;       // tokens that had one before them
    std::size_t windows = 0;         // parts of the text that were looked at each by itself
    std::vector<float> last_logits;  // behind the last token
};

// Logits of a large vocabulary are many: of so many tokens they are computed at once.
[[nodiscard]] std::size_t max_evaluated_logits(std::size_t vocab);

// A text longer than `context` tokens is cut into windows of that many, and each begins anew. `progress` may be empty.
[[nodiscard]] Result<Evaluation> evaluate(Engine& engine, std::span<const TokenId> tokens, std::size_t context,
                                          KvType kv_type, const std::function<void(std::size_t tokens)>& progress = {});

}  // namespace chaos::infer
