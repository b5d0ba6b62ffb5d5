#include "collective/encoding.h"

#include "base/assert.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace chaos::collective {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

#define CHAOS_INLINE [[gnu::always_inline]] inline

// Whatever overlaps in the loops below does so element by element.
#if defined(__clang__)
#define CHAOS_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define CHAOS_ELEMENTWISE _Pragma("GCC ivdep")
#endif

constexpr std::uint32_t infinity_bits = 0x7f800000;
constexpr std::uint32_t nan_bits = 0x7fc00000;
constexpr std::uint64_t block = encoding_block_floats;
constexpr std::uint64_t scale_bytes = sizeof(float);

// `a` or `b` without a branch: the compiler does not move the float operations behind `a` or `b` out of one, and a loop
// with branches does not vectorise.
CHAOS_INLINE std::uint32_t choose(bool which, std::uint32_t a, std::uint32_t b) {
    const std::uint32_t mask = 0U - static_cast<std::uint32_t>(which);
    return (a & mask) | (b & ~mask);
}

// One float of each format.
struct Fp32 {
    using Wire = float;
    CHAOS_INLINE static float wire_of(float value) { return value; }
    CHAOS_INLINE static float float_of(float wire) { return wire; }
};

struct Fp16 {
    using Wire = std::uint16_t;
    CHAOS_INLINE static std::uint16_t wire_of(float value) {
        const auto bits = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t magnitude = bits & 0x7fffffff;
        // Half of the last place that stays is added, less for ties that are even already.
        const std::uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
        const std::uint32_t normal = (rounded >> 13) - (112U << 10);
        // The last place of 0.5 is the smallest half: the addition rounds.
        const std::uint32_t subnormal =
            std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
        std::uint32_t half = choose(magnitude < 0x38800000, subnormal, normal);
        half = choose(rounded >= 0x47800000, 0x7c00, half);
        half = choose(magnitude > infinity_bits, 0x7e00, half);
        return static_cast<std::uint16_t>(half | (bits >> 16 & 0x8000));
    }
    CHAOS_INLINE static float float_of(std::uint16_t wire) {
        const std::uint32_t magnitude = wire & 0x7fffU;
        const std::uint32_t normal = (magnitude << 13) + (112U << 23);
        const auto subnormal = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24F);
        const std::uint32_t special = (magnitude << 13) + (224U << 23);
        const std::uint32_t bits = choose(magnitude >= 0x7c00, special, choose(magnitude < 0x400, subnormal, normal));
        return std::bit_cast<float>(bits | (wire & 0x8000U) << 16);
    }
};

struct Bf16 {
    using Wire = std::uint16_t;
    CHAOS_INLINE static std::uint16_t wire_of(float value) {
        const auto bits = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
        const std::uint32_t nan = (bits >> 16 & 0x8000) | 0x7fc0;
        return static_cast<std::uint16_t>((bits & 0x7fffffff) > infinity_bits ? nan : rounded);
    }
    CHAOS_INLINE static float float_of(std::uint16_t wire) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(wire) << 16);
    }
};

template <class Format>
CHAOS_INLINE void encode_loop(const float* __restrict floats, std::byte* __restrict encoded, std::uint64_t n) {
    auto* wire = reinterpret_cast<typename Format::Wire*>(encoded);
    for (std::uint64_t i = 0; i < n; ++i) wire[i] = Format::wire_of(floats[i]);
}

template <class Format>
CHAOS_INLINE void decode_loop(const std::byte* __restrict encoded, float* __restrict floats, std::uint64_t n) {
    const auto* wire = reinterpret_cast<const typename Format::Wire*>(encoded);
    for (std::uint64_t i = 0; i < n; ++i) floats[i] = Format::float_of(wire[i]);
}

template <class Format>
CHAOS_INLINE void add_loop(const float* base, const std::byte* encoded, float* sum, std::uint64_t n) {
    const auto* wire = reinterpret_cast<const typename Format::Wire*>(encoded);
    CHAOS_ELEMENTWISE
    for (std::uint64_t i = 0; i < n; ++i) sum[i] = base[i] + Format::float_of(wire[i]);
}

// Blocks of int8. A full one has a constant number of floats, so that its loops need no ends.
CHAOS_INLINE void encode_block(const float* __restrict floats, std::byte* __restrict encoded, std::uint64_t n) {
    std::uint32_t largest = 0;
    for (std::uint64_t i = 0; i < n; ++i)
        largest = std::max(largest, std::bit_cast<std::uint32_t>(floats[i]) & 0x7fffffff);
    auto* values = reinterpret_cast<std::int8_t*>(encoded + scale_bytes);
    const auto magnitude = std::bit_cast<float>(largest);
    if (largest >= infinity_bits || magnitude < 0x1p-100F) {
        const float scale = largest >= infinity_bits ? std::bit_cast<float>(nan_bits) : 0.0F;
        std::memcpy(encoded, &scale, scale_bytes);
        std::memset(values, 0, n);
        return;
    }
    const float scale = magnitude / 127.0F;
    const float inverse = 127.0F / magnitude;
    std::memcpy(encoded, &scale, scale_bytes);
    // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even, and leaves it in the low bits.
    for (std::uint64_t i = 0; i < n; ++i)
        values[i] = static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(floats[i] * inverse + 12582912.0F) & 0xff);
}

CHAOS_INLINE float scale_of(const std::byte* encoded) {
    float scale = 0.0F;
    std::memcpy(&scale, encoded, scale_bytes);
    // 0 times infinity is a NaN whose sign depends on the machine; this one does not.
    const bool finite = (std::bit_cast<std::uint32_t>(scale) & 0x7fffffff) < infinity_bits;
    return finite ? scale : std::bit_cast<float>(nan_bits);
}

CHAOS_INLINE void decode_block(const std::byte* __restrict encoded, float* __restrict floats, std::uint64_t n) {
    const float scale = scale_of(encoded);
    const auto* values = reinterpret_cast<const std::int8_t*>(encoded + scale_bytes);
    for (std::uint64_t i = 0; i < n; ++i) floats[i] = static_cast<float>(values[i]) * scale;
}

CHAOS_INLINE void add_block(const float* base, const std::byte* encoded, float* sum, std::uint64_t n) {
    const float scale = scale_of(encoded);
    const auto* values = reinterpret_cast<const std::int8_t*>(encoded + scale_bytes);
    CHAOS_ELEMENTWISE
    for (std::uint64_t i = 0; i < n; ++i) sum[i] = base[i] + static_cast<float>(values[i]) * scale;
}

CHAOS_INLINE void encode_blocks(const float* floats, std::byte* encoded, std::uint64_t n) {
    for (; n >= block; n -= block, floats += block, encoded += scale_bytes + block)
        encode_block(floats, encoded, block);
    if (n > 0) encode_block(floats, encoded, n);
}

CHAOS_INLINE void decode_blocks(const std::byte* encoded, float* floats, std::uint64_t n) {
    for (; n >= block; n -= block, floats += block, encoded += scale_bytes + block)
        decode_block(encoded, floats, block);
    if (n > 0) decode_block(encoded, floats, n);
}

CHAOS_INLINE void add_blocks(const float* base, const std::byte* encoded, float* sum, std::uint64_t n) {
    for (; n >= block; n -= block, base += block, sum += block, encoded += scale_bytes + block)
        add_block(base, encoded, sum, block);
    if (n > 0) add_block(base, encoded, sum, n);
}

struct Kernels {
    void (*encode)(Encoding, const float*, std::byte*, std::uint64_t);
    void (*decode)(Encoding, const std::byte*, float*, std::uint64_t);
    void (*add)(Encoding, const float*, const std::byte*, float*, std::uint64_t);
};

#define CHAOS_ENCODING_VARIANT(suffix, attribute)                                                             \
    attribute void encode_##suffix(Encoding encoding, const float* floats, std::byte* out, std::uint64_t n) { \
        switch (encoding) {                                                                                   \
            case Encoding::fp32:                                                                              \
                return encode_loop<Fp32>(floats, out, n);                                                     \
            case Encoding::fp16:                                                                              \
                return encode_loop<Fp16>(floats, out, n);                                                     \
            case Encoding::bf16:                                                                              \
                return encode_loop<Bf16>(floats, out, n);                                                     \
            case Encoding::int8:                                                                              \
                return encode_blocks(floats, out, n);                                                         \
        }                                                                                                     \
    }                                                                                                         \
    attribute void decode_##suffix(Encoding encoding, const std::byte* in, float* floats, std::uint64_t n) {  \
        switch (encoding) {                                                                                   \
            case Encoding::fp32:                                                                              \
                return decode_loop<Fp32>(in, floats, n);                                                      \
            case Encoding::fp16:                                                                              \
                return decode_loop<Fp16>(in, floats, n);                                                      \
            case Encoding::bf16:                                                                              \
                return decode_loop<Bf16>(in, floats, n);                                                      \
            case Encoding::int8:                                                                              \
                return decode_blocks(in, floats, n);                                                          \
        }                                                                                                     \
    }                                                                                                         \
    attribute void add_##suffix(Encoding encoding, const float* base, const std::byte* in, float* sum,        \
                                std::uint64_t n) {                                                            \
        switch (encoding) {                                                                                   \
            case Encoding::fp32:                                                                              \
                return add_loop<Fp32>(base, in, sum, n);                                                      \
            case Encoding::fp16:                                                                              \
                return add_loop<Fp16>(base, in, sum, n);                                                      \
            case Encoding::bf16:                                                                              \
                return add_loop<Bf16>(base, in, sum, n);                                                      \
            case Encoding::int8:                                                                              \
                return add_blocks(base, in, sum, n);                                                          \
        }                                                                                                     \
    }                                                                                                         \
    constexpr Kernels kernels_##suffix{encode_##suffix, decode_##suffix, add_##suffix};

CHAOS_VARIANTS(CHAOS_ENCODING_VARIANT)
#undef CHAOS_ENCODING_VARIANT

void check(Encoding encoding, std::span<const std::byte> encoded, std::uint64_t floats) {
    CHAOS_ASSERT(encoded.size() == encoded_bytes(encoding, floats));
    CHAOS_ASSERT(reinterpret_cast<std::uintptr_t>(encoded.data()) % alignof(float) == 0);
}

}  // namespace

const char* name_of(Encoding encoding) {
    switch (encoding) {
        case Encoding::fp32:
            return "fp32";
        case Encoding::fp16:
            return "fp16";
        case Encoding::bf16:
            return "bf16";
        case Encoding::int8:
            return "int8";
    }
    return "unknown";
}

std::uint64_t encoded_bytes(Encoding encoding, std::uint64_t floats) {
    switch (encoding) {
        case Encoding::fp32:
            return floats * 4;
        case Encoding::fp16:
        case Encoding::bf16:
            return floats * 2;
        case Encoding::int8:
            return floats + (floats + block - 1) / block * scale_bytes;
    }
    return 0;
}

void encode(Encoding encoding, std::span<const float> floats, std::span<std::byte> encoded, Path path) {
    check(encoding, encoded, floats.size());
    CHAOS_PICK(path, kernels).encode(encoding, floats.data(), encoded.data(), floats.size());
}

void decode(Encoding encoding, std::span<const std::byte> encoded, std::span<float> floats, Path path) {
    check(encoding, encoded, floats.size());
    CHAOS_PICK(path, kernels).decode(encoding, encoded.data(), floats.data(), floats.size());
}

void add_decoded(Encoding encoding, std::span<const float> base, std::span<const std::byte> encoded,
                 std::span<float> sum, Path path) {
    check(encoding, encoded, base.size());
    CHAOS_ASSERT(base.size() == sum.size());
    CHAOS_PICK(path, kernels).add(encoding, base.data(), encoded.data(), sum.data(), base.size());
}

void left_out(std::span<const float> sum, std::span<const float> decoded, std::span<float> left) {
    CHAOS_ASSERT(sum.size() == decoded.size() && sum.size() == left.size());
    CHAOS_ELEMENTWISE
    for (std::size_t i = 0; i < sum.size(); ++i) {
        const float difference = sum[i] - decoded[i];
        left[i] = (std::bit_cast<std::uint32_t>(difference) & infinity_bits) == infinity_bits ? 0.0F : difference;
    }
}

}  // namespace chaos::collective
