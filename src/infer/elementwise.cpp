#include "infer/elementwise.h"

#include "base/assert.h"
#include "infer/kernels.h"
#include "infer/multiply.h"

#include <bit>
#include <cmath>
#include <limits>

namespace chaos::infer {

void rms_norm(std::span<const float> values, std::span<const float> weights, float epsilon, std::span<float> out) {
    CHAOS_ASSERT(weights.size() == values.size() && out.size() == values.size());
    rms_norm(values.data(), weights.data(), values.size(), epsilon, out.data());
}

void silu_times(std::span<const float> gate, std::span<const float> up, std::span<float> out) {
    CHAOS_ASSERT(gate.size() == up.size() && out.size() == up.size());
    silu_times(gate.data(), up.data(), gate.size(), out.data());
}

void add(std::span<const float> values, std::span<float> to) {
    CHAOS_ASSERT(values.size() == to.size());
    for (std::size_t i = 0; i < values.size(); ++i) to[i] += values[i];
}

void add_fixed(std::span<const std::int64_t> sums, std::span<float> to) {
    CHAOS_ASSERT(sums.size() == to.size());
    for (std::size_t i = 0; i < sums.size(); ++i) to[i] += from_fixed(sums[i]);
}

void rotate_head(std::span<float> head, std::span<const float> cosines, std::span<const float> sines) {
    const std::size_t half = head.size() / 2;
    CHAOS_ASSERT(half * 2 == head.size() && cosines.size() == half && sines.size() == half);
    for (std::size_t i = 0; i < half; ++i) {
        const float x = head[i];
        const float y = head[i + half];
        head[i] = x * cosines[i] - y * sines[i];
        head[i + half] = y * cosines[i] + x * sines[i];
    }
}

float exponential(float value) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    if (std::isnan(value)) return value;
    if (value < -87.3F) return 0.0F;
    if (value > 88.3F) return infinity;
    // e^x = 2^n * e^r with |r| <= ln(2) / 2, of which Taylor's series needs eight terms.
    const float n = std::nearbyint(value * 0x1.715476p0F);
    const float r = std::fma(n, -0x1.7f7d1cp-20F, std::fma(n, -0x1.62e4p-1F, value));
    float sum = 1.0F / 5040.0F;
    for (const float term : {1.0F / 720.0F, 1.0F / 120.0F, 1.0F / 24.0F, 1.0F / 6.0F, 0.5F, 1.0F, 1.0F})
        sum = std::fma(sum, r, term);
    return sum * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

}  // namespace chaos::infer
