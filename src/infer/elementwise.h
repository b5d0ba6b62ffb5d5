// What a layer does with activations between its products. One order of operations on every instruction set: sums over
// elements are taken in 16 interleaved parts (element i belongs to part i mod 16) which are then added pairwise, part j
// to part j + 8, then + 4, + 2, + 1. The exponential is our own: libm's differs between machines.
#pragma once

#include <cstdint>
#include <span>

namespace chaos::infer {

// out[i] = values[i] / sqrt(mean of squares + epsilon) * weights[i]; out may be values.
void rms_norm(std::span<const float> values, std::span<const float> weights, float epsilon, std::span<float> out);

// out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]; out may be one of them.
void silu_times(std::span<const float> gate, std::span<const float> up, std::span<float> out);

void add(std::span<const float> values, std::span<float> to);
// Sums of multiply_fixed(), rounded to floats and added.
void add_fixed(std::span<const std::int64_t> sums, std::span<float> to);

// Rotates a head by the angles of its position: (x[i], x[i + half]) becomes (x[i] cos - x[i + half] sin,
// x[i + half] cos + x[i] sin), as Hugging Face pairs them. Weights of files that pair neighbours are permuted when they
// are packed. cosines.size() is half of the head's.
void rotate_head(std::span<float> head, std::span<const float> cosines, std::span<const float> sines);

// Within 1e-7 of exp, relatively; 0 below -87.3, infinite above 88.3.
[[nodiscard]] float exponential(float value);

}  // namespace chaos::infer
