// Integer arithmetic of plans. Every member computes a plan for itself and all must reach the same one, so nothing here
// or elsewhere in plan/ is floating point: times are whole nanoseconds, rates whole bytes per second, and products are
// taken in 128 bits. Values that leave their range saturate; they never wrap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace chaos::plan {

__extension__ using u128 = unsigned __int128;

// A rate, cap or limit that does not bind.
inline constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

inline constexpr std::uint64_t ns_per_s = 1'000'000'000;

// Plans end here (146 years); a time that would be longer is cut to it.
inline constexpr std::uint64_t longest_ns = std::uint64_t{1} << 62;

// Rates above this (281 terabytes per second) are taken for it, so that every product below fits 128 bits.
inline constexpr std::uint64_t fastest_bytes_per_s = std::uint64_t{1} << 48;

[[nodiscard]] constexpr std::uint64_t saturate(u128 value) {
    constexpr u128 largest = std::numeric_limits<std::uint64_t>::max();
    return static_cast<std::uint64_t>(std::min(value, largest));
}

[[nodiscard]] constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
    return a / b + (a % b != 0 ? 1 : 0);
}

// a * b / c, rounded down. The division is done in 64 bits where it fits: that is several times faster.
[[nodiscard]] constexpr std::uint64_t mul_div(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    const u128 product = u128{a} * b;
    if (product <= unlimited) return static_cast<std::uint64_t>(product) / c;
    return saturate(product / c);
}

// The time `bytes` take at a rate, rounded up to whole nanoseconds; 0 when the rate is unlimited, longest_ns when it
// is 0.
[[nodiscard]] constexpr std::uint64_t transfer_ns(std::uint64_t bytes, std::uint64_t bytes_per_s) {
    if (bytes == 0 || bytes_per_s == unlimited) return 0;
    if (bytes_per_s == 0) return longest_ns;
    const u128 product = u128{bytes} * ns_per_s;
    if (product <= unlimited) return std::min(ceil_div(static_cast<std::uint64_t>(product), bytes_per_s), longest_ns);
    return std::min(saturate((product + bytes_per_s - 1) / bytes_per_s), longest_ns);
}

[[nodiscard]] constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
    return a > unlimited - b ? unlimited : a + b;
}

}  // namespace chaos::plan
