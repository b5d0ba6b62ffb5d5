// A taste of what a language model has learned: text continued token by token by the engine that trained it.
#pragma once

#include "base/result.h"
#include "elastic/trainer.h"

#include <cstdint>
#include <string>

namespace chaos::cli {

// For a llama trained on text. Continues `prompt` by `tokens` tokens drawn at temperature 0.8; the same seed draws the
// same text.
[[nodiscard]] Result<std::string> sample_text(elastic::Trainer& trainer, const std::string& prompt, std::size_t tokens,
                                              std::uint64_t seed);

}  // namespace chaos::cli
