// Loops over floats that the compiler turns into the widest vectors of the processor it runs on. A function marked
// CHAOS_SIMD is compiled once per instruction set and chosen at load; what it calls must be inlined into it.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__x86_64__)
#define CHAOS_SIMD [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define CHAOS_SIMD
#endif
#define CHAOS_INLINE [[gnu::always_inline]] inline

namespace chaos::compute {

// Independent running sums: as many as the widest vector has lanes, so that a sum over a row needs no reordering.
inline constexpr std::int64_t lanes = 16;

CHAOS_INLINE float sum_of(const float (&partial)[lanes]) {
    float sum = 0.0F;
    for (const float value : partial) sum += value;
    return sum;
}

CHAOS_INLINE float dot(const float* a, const float* b, std::int64_t n) {
    float partial[lanes] = {};
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (std::int64_t lane = 0; lane < lanes; ++lane) partial[lane] += a[i + lane] * b[i + lane];
    float sum = sum_of(partial);
    for (; i < n; ++i) sum += a[i] * b[i];
    return sum;
}

// e^x within 2 units in the last place, branch-free so that loops over it vectorise. Below -87 it is about 1e-38.
CHAOS_INLINE float exponential(float x) {
    x = x < -87.0F ? -87.0F : x;
    x = x > 88.0F ? 88.0F : x;
    // Adding 1.5 * 2^23 leaves the nearest integer of x / ln 2 in the low bits of the mantissa.
    constexpr float round = 12582912.0F;
    const float shifted = x * 1.44269504F + round;
    const float whole = shifted - round;
    const float rest = (x - whole * 0.693359375F) + whole * 2.12194440e-4F;
    float series = 1.9875691500e-4F;
    series = series * rest + 1.3981999507e-3F;
    series = series * rest + 8.3334519073e-3F;
    series = series * rest + 4.1665795894e-2F;
    series = series * rest + 1.6666665459e-1F;
    series = series * rest + 5.0000001201e-1F;
    const float mantissa = (series * rest) * rest + rest + 1.0F;
    const auto exponent = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23;
    return mantissa * std::bit_cast<float>(exponent);
}

CHAOS_INLINE float largest_of(const float* values, std::int64_t n) {
    float partial[lanes];
    for (float& value : partial) value = values[0];
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (std::int64_t lane = 0; lane < lanes; ++lane)
            partial[lane] = values[i + lane] > partial[lane] ? values[i + lane] : partial[lane];
    float largest = partial[0];
    for (const float value : partial) largest = value > largest ? value : largest;
    for (; i < n; ++i) largest = values[i] > largest ? values[i] : largest;
    return largest;
}

// Replaces each value by e^((value - shift) * scale) and returns their sum.
CHAOS_INLINE float exponentiate(float* values, std::int64_t n, float shift, float scale) {
    float partial[lanes] = {};
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes)
        for (std::int64_t lane = 0; lane < lanes; ++lane) {
            values[i + lane] = exponential((values[i + lane] - shift) * scale);
            partial[lane] += values[i + lane];
        }
    float sum = sum_of(partial);
    for (; i < n; ++i) {
        values[i] = exponential((values[i] - shift) * scale);
        sum += values[i];
    }
    return sum;
}

}  // namespace chaos::compute
