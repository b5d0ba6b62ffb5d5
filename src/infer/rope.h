// Rotary positions: angles and their sines and cosines, the same bits on every machine (libm's differ), rounded where
// Hugging Face's implementation rounds to floats.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace chaos::infer {

// theta^(-2i / dimensions) for i in [0, dimensions / 2): what the RoPE kinds start from.
[[nodiscard]] std::vector<float> inverse_frequencies(double theta, std::size_t dimensions);

// cosines[i], sines[i] = those of position * inverse_frequencies[i]. Positions are below 2^20.
void angles_of(std::size_t position, std::span<const float> inverse_frequencies, std::span<float> cosines,
               std::span<float> sines);

// base^exponent for base > 0, within 1e-14 relatively where the result is between 1e-30 and 1e30.
[[nodiscard]] double power(double base, double exponent);

}  // namespace chaos::infer
