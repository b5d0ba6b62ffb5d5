#include "infer/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace chaos::infer {
namespace {

double nll_of(std::span<const float> logits, TokenId token) {
    const double greatest = *std::max_element(logits.begin(), logits.end());
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - greatest);
    return greatest + std::log(sum) - logits[static_cast<std::size_t>(token)];
}

}  // namespace

std::size_t max_evaluated_logits(std::size_t vocab) {
    return std::clamp<std::size_t>((std::size_t{1} << 22) / vocab, 1, Engine::max_tokens);
}

Result<Evaluation> evaluate(Engine& engine, std::span<const TokenId> tokens, std::size_t context, KvType kv_type,
                            const std::function<void(std::size_t)>& progress) {
    if (tokens.empty()) return Error{"there is nothing to evaluate: the text has no tokens"};
    const auto vocab = static_cast<std::size_t>(engine.config().vocab);
    const std::size_t step = std::min(max_evaluated_logits(vocab), engine.batch_tokens());
    CHAOS_TRY(KvCache cache, KvCache::make(engine.part(), std::min(context, tokens.size()), kv_type));
    Evaluation result;
    double sum = 0.0;
    for (std::size_t at = 0; at < tokens.size();) {
        if (cache.size() == cache.capacity()) cache.cut(0);
        if (cache.size() == 0) ++result.windows;
        const std::size_t count = std::min({step, tokens.size() - at, cache.capacity() - cache.size()});
        const bool window_ends = cache.size() + count == cache.capacity();
        const std::array pieces = {Piece{&cache, tokens.subspan(at, count), count}};
        CHAOS_TRY(const auto logits, engine.forward(pieces));
        for (std::size_t i = 0; i < count && at + i + 1 < tokens.size(); ++i) {
            if (window_ends && i + 1 == count) break;  // the next token is the first of its window
            sum += nll_of(logits.subspan(i * vocab, vocab), tokens[at + i + 1]);
            ++result.predicted;
        }
        at += count;
        if (at == tokens.size())
            result.last_logits.assign(logits.end() - static_cast<std::ptrdiff_t>(vocab), logits.end());
        if (progress) progress(at);
    }
    if (result.predicted > 0) result.mean_nll = sum / static_cast<double>(result.predicted);
    if (!std::isfinite(result.mean_nll))
        return Error{"the model computed logits that are not numbers: its weights may be damaged"};
    return result;
}

}  // namespace chaos::infer
