// Random numbers as pure functions of integers: no generator carries state, so any worker can compute any
// number of any stream, and every machine computes the same bits. Integer arithmetic only.
#pragma once

#include <cstdint>

namespace chaos {

// Mixes three integers into 64 well-spread bits (the finaliser of SplitMix64, applied per input).
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    constexpr auto mix = [](std::uint64_t x) {
        x += 0x9e3779b97f4a7c15U;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
        return x ^ (x >> 31);
    };
    return mix(mix(mix(seed) ^ stream) ^ index);
}

// Uniform in [0, 1), a multiple of 2^-24: exact in a float.
[[nodiscard]] constexpr float random_unit(std::uint64_t bits) {
    return static_cast<float>(bits >> 40) * 0x1p-24F;
}

// Near-normal with mean 0 and variance 1: the sum of twelve 16-bit uniforms (Irwin-Hall), never beyond 6 sigma.
// Exact integer sums instead of logarithms, which differ between machines.
[[nodiscard]] constexpr float random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    std::int64_t sum = 0;
    for (std::uint64_t part = 0; part < 3; ++part) {
        const std::uint64_t bits = random_bits(seed, stream, index * 3 + part);
        for (int shift = 0; shift < 64; shift += 16) sum += static_cast<std::int64_t>((bits >> shift) & 0xffff);
    }
    // Each uniform has mean 32767.5; the sum's standard deviation is 65536 up to 1e-10.
    return static_cast<float>(2 * sum - std::int64_t{12} * 65535) * 0x1p-17F;
}

}  // namespace chaos
