#include "infer/config.h"

#include "infer/rope.h"

#include <algorithm>
#include <array>

namespace chaos::infer {

std::vector<float> angle_steps(const Config& config) {
    std::vector<float> steps = inverse_frequencies(config.rope.theta, static_cast<std::size_t>(config.head_width));
    for (std::size_t pair = 0; pair < steps.size(); ++pair) {
        steps[pair] /= static_cast<float>(config.rope.linear_factor);
        if (!config.rope.divisors.empty()) steps[pair] /= config.rope.divisors[pair];
    }
    return steps;
}

bool ends_turn(std::string_view text) {
    constexpr std::array<std::string_view, 5> texts = {"<|eot_id|>", "<|im_end|>", "<|eom_id|>", "<end_of_turn>",
                                                       "<|end|>"};
    return std::find(texts.begin(), texts.end(), text) != texts.end();
}

Result<void> check_config(const Config& config, const std::string& name) {
    if (config.heads % config.kv_heads != 0)
        return Error{name + ": " + std::to_string(config.heads) + " heads are no multiple of " +
                     std::to_string(config.kv_heads) + " key-value heads"};
    if (config.head_width % 2 != 0)
        return Error{name + ": a head's width must be even, not " + std::to_string(config.head_width)};
    if (!(config.norm_epsilon > 0.0 && config.norm_epsilon < 1.0))
        return Error{name + ": the norms' epsilon must be between 0 and 1"};
    const auto sensible = [](double value) { return value > 1e-9 && value < 1e30; };
    if (!sensible(config.rope.theta) || !sensible(config.rope.linear_factor) ||
        !std::all_of(config.rope.divisors.begin(), config.rope.divisors.end(), sensible))
        return Error{name + ": the RoPE parameters make no sense (theta and factors must be positive)"};
    // No model turns a pair by a quarter or more from one position to the next; angles of many turns are not exact.
    const std::vector<float> steps = angle_steps(config);
    if (!std::all_of(steps.begin(), steps.end(), [](float step) { return step <= 1.5F; }))
        return Error{name + ": the RoPE parameters make no sense (theta or a factor is too small)"};
    const auto known = [&](std::int64_t token) { return token >= 0 && token < config.vocab; };
    for (const std::int64_t token : config.eos_tokens)
        if (!known(token))
            return Error{name + ": the end token " + std::to_string(token) + " is not in the vocabulary"};
    if (config.bos_token && !known(*config.bos_token))
        return Error{name + ": the begin token " + std::to_string(*config.bos_token) + " is not in the vocabulary"};
    return {};
}

}  // namespace chaos::infer
