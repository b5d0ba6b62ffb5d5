#include "infer/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "../bench/infer/machine.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "machine.h"

#include <array>

HWY_BEFORE_NAMESPACE();
namespace chaos::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::ScalableTag<std::uint64_t>;
using Floats = hn::ScalableTag<float>;
using Ints = hn::ScalableTag<std::int32_t>;

template <std::size_t streams>
std::uint64_t read_streams(const std::uint64_t* from, std::size_t words) {
    const Words d;
    constexpr std::size_t step = 64 / sizeof(std::uint64_t);
    const std::size_t part = words / streams / step * step;
    hn::Vec<Words> sums[streams];
    for (std::size_t j = 0; j < streams; ++j) sums[j] = hn::Zero(d);
    for (std::size_t i = 0; i < part; i += step) {
        HWY_UNROLL(8)
        for (std::size_t j = 0; j < streams; ++j) HWY_UNROLL(4)
        for (std::size_t k = 0; k < step; k += hn::MaxLanes(d))
            sums[j] = hn::Xor(sums[j], hn::LoadU(d, from + j * part + i + k));
    }
    HWY_UNROLL(8)
    for (std::size_t j = 1; j < streams; ++j) sums[0] = hn::Xor(sums[0], sums[j]);
    return hn::GetLane(hn::SumOfLanes(d, sums[0]));
}

std::uint64_t read_bytes(const std::byte* from, std::size_t bytes, std::size_t streams) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(from);
    const std::size_t count = bytes / sizeof(std::uint64_t);
    switch (streams) {
        case 1:
            return read_streams<1>(words, count);
        case 2:
            return read_streams<2>(words, count);
        case 4:
            return read_streams<4>(words, count);
        default:
            return read_streams<8>(words, count);
    }
}

// Sums that do not depend on each other: enough of them to hide an instruction's latency.
constexpr std::size_t sums_at_once = 12;

// How many multiply-adds were done.
double multiply_floats(std::size_t rounds) {
    const Floats d;
    hn::Vec<Floats> sums[sums_at_once];
    HWY_UNROLL(12)
    for (std::size_t j = 0; j < sums_at_once; ++j) sums[j] = hn::Set(d, static_cast<float>(j));
    auto x = hn::Set(d, 0.5F);
    auto y = hn::Set(d, 0.25F);
    for (std::size_t i = 0; i < rounds; ++i) {
        asm volatile("" : "+m"(*&rounds));
        HWY_UNROLL(12)
        for (std::size_t j = 0; j < sums_at_once; ++j) sums[j] = hn::MulAdd(x, y, sums[j]);
    }
    HWY_UNROLL(12)
    for (std::size_t j = 1; j < sums_at_once; ++j) sums[0] = hn::Add(sums[0], sums[j]);
    volatile float kept = hn::GetLane(sums[0]);
    static_cast<void>(kept);
    return static_cast<double>(rounds * sums_at_once * hn::MaxLanes(d));
}

double multiply_bytes(std::size_t rounds) {
    const Ints d;
    hn::Vec<Ints> sums[sums_at_once];
    HWY_UNROLL(12)
    for (std::size_t j = 0; j < sums_at_once; ++j) sums[j] = hn::Set(d, static_cast<std::int32_t>(j));
    auto x = hn::Set(d, 0x01020304);
    const auto y = hn::Set(d, 0x04030201);
    for (std::size_t i = 0; i < rounds; ++i) {
        HWY_UNROLL(12)
        for (std::size_t j = 0; j < sums_at_once; ++j) {
            auto& sum = sums[j];
#if HWY_TARGET == HWY_AVX3_DL
            asm volatile("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(y.raw));
#elif HWY_TARGET == HWY_AVX3
            asm volatile("" : "+v"(x.raw));  // the compiler must not know that all products are the same
            sum = hn::Vec<Ints>{_mm512_add_epi16(sum.raw, _mm512_maddubs_epi16(x.raw, y.raw))};
#elif HWY_TARGET == HWY_AVX2
            asm volatile("" : "+v"(x.raw));
            sum = hn::Vec<Ints>{_mm256_add_epi16(sum.raw, _mm256_maddubs_epi16(x.raw, y.raw))};
#else
            sum = hn::Add(sum, hn::Mul(x, y));
#endif
        }
    }
    HWY_UNROLL(12)
    for (std::size_t j = 1; j < sums_at_once; ++j) sums[0] = hn::Add(sums[0], sums[j]);
    volatile std::int32_t kept = hn::GetLane(sums[0]);
    static_cast<void>(kept);
    return static_cast<double>(rounds * sums_at_once * hn::MaxLanes(d) * 4);
}

}  // namespace chaos::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace chaos::bench {

HWY_EXPORT(read_bytes);
HWY_EXPORT(multiply_floats);
HWY_EXPORT(multiply_bytes);

void read_all(infer::Pool& pool, std::span<const std::byte> bytes, std::size_t streams) {
    const std::size_t part = bytes.size() / pool.threads() / 64 * 64;
    std::atomic<std::uint64_t> kept{0};
    pool.run(pool.threads(), [&](std::size_t thread) {
        kept ^= HWY_DYNAMIC_DISPATCH(read_bytes)(bytes.data() + thread * part, part, streams);
    });
}

double float_peak() {
    const double start = seconds_now();
    const double done = HWY_DYNAMIC_DISPATCH(multiply_floats)(200'000);
    return done / (seconds_now() - start);
}

double byte_peak() {
    const double start = seconds_now();
    const double done = HWY_DYNAMIC_DISPATCH(multiply_bytes)(200'000);
    return done / (seconds_now() - start);
}

}  // namespace chaos::bench

#endif
