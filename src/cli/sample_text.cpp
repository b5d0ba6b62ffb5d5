#include "cli/sample_text.h"

#include "base/random.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace chaos::cli {
namespace {

constexpr double temperature = 0.8;

std::int64_t draw(std::span<const float> logits, float unit) {
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp((logit - largest) / temperature);
    double left = static_cast<double>(unit) * sum;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        left -= std::exp((logits[i] - largest) / temperature);
        if (left < 0.0) return static_cast<std::int64_t>(i);
    }
    return static_cast<std::int64_t>(logits.size()) - 1;
}

std::vector<std::int64_t> tokens_of(const elastic::Trainer& trainer, const std::string& text) {
    std::vector<std::int64_t> tokens;
    if (const text::Tokenizer* tokenizer = trainer.tokenizer(); tokenizer != nullptr) {
        // A begin token starts what the model has seen; an end token, which some post-processors add, would end it.
        if (const auto begin = trainer.run().model.llama.bos_token) tokens.push_back(*begin);
        for (const text::TokenId id : tokenizer->encode(text, false)) tokens.push_back(id);
    } else {
        for (const char character : text) tokens.push_back(static_cast<unsigned char>(character));
    }
    return tokens;
}

std::string text_of(const elastic::Trainer& trainer, std::span<const std::int64_t> tokens) {
    if (const text::Tokenizer* tokenizer = trainer.tokenizer(); tokenizer != nullptr)
        return tokenizer->decode(std::vector<text::TokenId>(tokens.begin(), tokens.end()));
    std::string text;
    for (const std::int64_t token : tokens) text += static_cast<char>(token);
    return text;
}

}  // namespace

Result<std::string> sample_text(elastic::Trainer& trainer, const std::string& prompt, std::size_t count,
                                std::uint64_t seed) {
    const auto context = static_cast<std::size_t>(trainer.run().data.context);
    std::vector<std::int64_t> tokens = tokens_of(trainer, prompt.empty() ? "\n" : prompt);
    if (tokens.empty()) return Error{"--sample: the tokenizer makes no token of \"" + prompt + "\""};
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t begin = tokens.size() > context ? tokens.size() - context : 0;
        data::Batch batch;
        batch.count = 1;
        batch.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.end());
        batch.targets.assign(batch.tokens.size(), 0);
        batch.samples = {0};
        CHAOS_TRY(const std::vector<float> logits, trainer.engine().outputs(batch));
        const std::size_t vocab = logits.size() / batch.tokens.size();
        tokens.push_back(draw(std::span(logits).last(vocab), random_unit(random_bits(seed, 0x7e87, i))));
    }
    return text_of(trainer, tokens);
}

}  // namespace chaos::cli
