#include "infer/preferences.h"

#include <unordered_map>

namespace chaos::infer {

void apply(const Preferences& preferences, std::span<const text::TokenId> drawn, std::span<float> logits) {
    const auto add = [logits](text::TokenId token, double amount) {
        float& logit = logits[static_cast<std::size_t>(token)];
        logit = static_cast<float>(static_cast<double>(logit) + amount);
    };
    for (const auto& [token, amount] : preferences.bias) add(token, amount);
    if (preferences.presence_penalty == 0.0 && preferences.frequency_penalty == 0.0) return;
    std::unordered_map<text::TokenId, std::size_t> times;
    for (const text::TokenId token : drawn) ++times[token];
    for (const auto& [token, count] : times)
        add(token, -preferences.presence_penalty - preferences.frequency_penalty * static_cast<double>(count));
}

}  // namespace chaos::infer
