#include "infer/preferences.h"

#include <string>
#include <unordered_map>

namespace chaos::infer {
namespace {

// What is not a number is not moderate.
bool is_moderate(double amount) {
    return amount >= -max_preference && amount <= max_preference;
}

}  // namespace

Result<void> check(const Preferences& preferences, std::int64_t vocab) {
    const std::string range = "from " + std::to_string(static_cast<int>(-max_preference)) + " to " +
                              std::to_string(static_cast<int>(max_preference));
    if (preferences.bias.size() > max_biased_tokens)
        return Error{"a bias is for at most " + std::to_string(max_biased_tokens) + " tokens, not " +
                     std::to_string(preferences.bias.size())};
    for (const auto& [token, amount] : preferences.bias) {
        if (token < 0 || token >= vocab)
            return Error{"there is no token " + std::to_string(token) + " to bias: the model has " +
                         std::to_string(vocab)};
        if (!is_moderate(amount)) return Error{"the bias of token " + std::to_string(token) + " must be " + range};
    }
    if (!is_moderate(preferences.presence_penalty) || !is_moderate(preferences.frequency_penalty))
        return Error{"a penalty must be " + range};
    return {};
}

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
