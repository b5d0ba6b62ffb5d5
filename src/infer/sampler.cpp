#include "infer/sampler.h"

#include "base/random.h"
#include "infer/elementwise.h"

#include <algorithm>
#include <cmath>

namespace chaos::infer {
namespace {

constexpr std::uint64_t sampling_stream = 0x5a3b1e;
// Below this the weights of all tokens but the most likely are 0.
constexpr double least_temperature = 1e-3;

// The most likely token, the first of equals; nothing where a logit is not a number or infinite.
std::optional<std::size_t> most_likely(std::span<const float> logits) {
    std::size_t best = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (std::isnan(logits[i])) return std::nullopt;
        if (logits[i] > logits[best]) best = i;
    }
    return std::isfinite(logits[best]) ? std::optional(best) : std::nullopt;
}

struct Candidate {
    std::size_t token = 0;
    float logit = 0.0F;
    double weight = 0.0;
};

// By logits, not by weights: different ones may have the same weight.
bool less_likely(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit < b.logit : a.token > b.token;
}

double sum_of(std::span<const Candidate> candidates) {
    double sum = 0.0;
    for (const Candidate& each : candidates) sum += each.weight;
    return sum;
}

// Those that remain, best first. A heap gives them one by one: mostly few are needed of very many.
std::vector<Candidate> remaining(std::vector<Candidate> all, const Sampling& sampling) {
    std::make_heap(all.begin(), all.end(), less_likely);
    const std::size_t most =
        sampling.top_k > 0 ? std::min(all.size(), static_cast<std::size_t>(sampling.top_k)) : all.size();
    std::vector<Candidate> best;
    const auto take = [&] {
        std::pop_heap(all.begin(), all.end(), less_likely);
        best.push_back(all.back());
        all.pop_back();
    };
    // With top_k the probabilities that top_p adds up are those among the k.
    double total = 0.0;
    if (sampling.top_k > 0) {
        while (best.size() < most) take();
        total = sum_of(best);
    } else {
        total = sum_of(all);
    }
    double sum = 0.0;
    for (std::size_t count = 0; count < most; ++count) {
        if (count == best.size()) take();
        const bool enough = count > 0 && sum >= sampling.top_p * total;
        if (enough || best[count].weight < sampling.min_p * best[0].weight) {
            best.resize(count);
            break;
        }
        sum += best[count].weight;
    }
    return best;
}

std::size_t draw(std::span<const Candidate> candidates, std::uint64_t bits) {
    double left = static_cast<double>(bits >> 11) * 0x1p-53 * sum_of(candidates);
    for (const Candidate& each : candidates) {
        left -= each.weight;
        if (left < 0.0) return each.token;
    }
    return candidates.back().token;
}

std::vector<Candidate> weights_of(std::span<const float> logits, float greatest, double temperature) {
    std::vector<Candidate> all(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const double distance = (static_cast<double>(logits[i]) - greatest) / temperature;
        all[i] = {i, logits[i], exponential(static_cast<float>(distance))};
    }
    return all;
}

void add_logprobs(std::span<const float> logits, float greatest, const Wanted& wanted, Sampled& sampled) {
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - greatest);
    const double total = greatest + std::log(sum);
    const auto logprob = [&](TokenId token) { return logits[static_cast<std::size_t>(token)] - total; };
    sampled.logprob = logprob(sampled.token);
    std::vector<TokenId> order(logits.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
    const std::size_t count = std::min(wanted.top, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](TokenId a, TokenId b) {
                          const float left = logits[static_cast<std::size_t>(a)];
                          const float right = logits[static_cast<std::size_t>(b)];
                          return left != right ? left > right : a < b;
                      });
    for (std::size_t i = 0; i < count; ++i) sampled.top.push_back({order[i], logprob(order[i])});
}

}  // namespace

std::size_t needed(const Sampling& sampling, const Wanted& wanted) {
    if (wanted.logprob || wanted.top > 0) return 0;
    return sampling.temperature > least_temperature ? static_cast<std::size_t>(sampling.top_k) : 1;
}

Result<void> check(const Sampling& sampling) {
    if (!(sampling.temperature >= 0.0 && sampling.temperature <= 100.0))
        return Error{"the temperature must be from 0 to 100"};
    if (sampling.top_k < 0) return Error{"top-k must not be negative"};
    if (!(sampling.top_p >= 0.0 && sampling.top_p <= 1.0)) return Error{"top-p must be from 0 to 1"};
    if (!(sampling.min_p >= 0.0 && sampling.min_p <= 1.0)) return Error{"min-p must be from 0 to 1"};
    return {};
}

Result<Sampled> sample(std::span<const float> logits, const Sampling& sampling, std::uint64_t index,
                       const Wanted& wanted) {
    const auto best = most_likely(logits);
    if (!best) return Error{"the model computed logits that are not numbers: its weights may be damaged"};
    Sampled sampled;
    sampled.token = static_cast<TokenId>(*best);
    if (sampling.temperature > least_temperature) {
        auto candidates = weights_of(logits, logits[*best], sampling.temperature);
        if (sampling.top_k > 0 || sampling.top_p < 1.0 || sampling.min_p > 0.0)
            candidates = remaining(std::move(candidates), sampling);
        sampled.token = static_cast<TokenId>(draw(candidates, random_bits(sampling.seed, sampling_stream, index)));
    }
    if (wanted.logprob || wanted.top > 0) add_logprobs(logits, logits[*best], wanted, sampled);
    return sampled;
}

}  // namespace chaos::infer
