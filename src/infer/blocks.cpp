#include "infer/blocks.h"

#include "base/assert.h"
#include "base/half.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace chaos::infer {
namespace {

constexpr std::array<Blocks, 11> all_blocks = {{
    {StoredType::f32, "F32", 0, 1, 4},
    {StoredType::f16, "F16", 1, 1, 2},
    {StoredType::bf16, "BF16", 30, 1, 2},
    {StoredType::q8_0, "Q8_0", 8, 32, 34},
    {StoredType::q4_0, "Q4_0", 2, 32, 18},
    {StoredType::q4_1, "Q4_1", 3, 32, 20},
    {StoredType::q5_0, "Q5_0", 6, 32, 22},
    {StoredType::q5_1, "Q5_1", 7, 32, 24},
    {StoredType::q4_k, "Q4_K", 12, 256, 144},
    {StoredType::q5_k, "Q5_K", 13, 256, 176},
    {StoredType::q6_k, "Q6_K", 14, 256, 210},
}};

std::uint16_t bits16(const std::byte* at) {
    return static_cast<std::uint16_t>(std::to_integer<unsigned>(at[0]) | std::to_integer<unsigned>(at[1]) << 8);
}

float half_at(const std::byte* at) {
    return f16_to_float(bits16(at));
}

int byte_at(const std::byte* at) {
    return std::to_integer<int>(*at);
}

void put_half(std::byte* at, float value) {
    const std::uint16_t half = float_to_f16(value);
    at[0] = static_cast<std::byte>(half & 255U);
    at[1] = static_cast<std::byte>(half >> 8);
}

void decode_q8_0(const std::byte* block, float* out) {
    const float d = half_at(block);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<std::int8_t>(byte_at(block + 2 + i)));
}

// Four bits of each column, and a fifth from `high` where there is one.
void decode_nibbles(const std::byte* nibbles, std::uint32_t high, float d, int zero, float m, float* out) {
    for (int i = 0; i < 16; ++i) {
        const int low = (byte_at(nibbles + i) & 15) | static_cast<int>((high >> i & 1U) << 4);
        const int up = (byte_at(nibbles + i) >> 4) | static_cast<int>((high >> (i + 16) & 1U) << 4);
        out[i] = d * static_cast<float>(low - zero) + m;
        out[i + 16] = d * static_cast<float>(up - zero) + m;
    }
}

std::uint32_t bits32(const std::byte* at) {
    return bits16(at) | static_cast<std::uint32_t>(bits16(at + 2)) << 16;
}

// The 6-bit scale and minimum of group `j` of eight, packed into twelve bytes.
void scale_of_group(const std::byte* packed, int j, int& scale, int& minimum) {
    if (j < 4) {
        scale = byte_at(packed + j) & 63;
        minimum = byte_at(packed + j + 4) & 63;
    } else {
        scale = (byte_at(packed + j + 4) & 15) | (byte_at(packed + j - 4) >> 6) << 4;
        minimum = (byte_at(packed + j + 4) >> 4) | (byte_at(packed + j) >> 6) << 4;
    }
}

// `fifth`: 32 bytes whose bit j belongs to group j, or null.
void decode_k4(const std::byte* block, const std::byte* fifth, const std::byte* nibbles, float* out) {
    const float d = half_at(block);
    const float m = half_at(block + 2);
    for (int j = 0; j < 8; ++j) {
        int scale = 0;
        int minimum = 0;
        scale_of_group(block + 4, j, scale, minimum);
        const float step = d * static_cast<float>(scale);
        const float base = m * static_cast<float>(minimum);
        for (int i = 0; i < 32; ++i) {
            int q = byte_at(nibbles + std::ptrdiff_t{j / 2} * 32 + i) >> (j % 2 * 4) & 15;
            if (fifth != nullptr) q |= (byte_at(fifth + i) >> j & 1) << 4;
            out[j * 32 + i] = step * static_cast<float>(q) - base;
        }
    }
}

void decode_q6_k(const std::byte* block, float* out) {
    const std::byte* scales = block + 192;
    const float d = half_at(block + 208);
    for (std::ptrdiff_t half = 0; half < 2; ++half)
        for (std::ptrdiff_t quarter = 0; quarter < 4; ++quarter)
            for (std::ptrdiff_t i = 0; i < 32; ++i) {
                const int low = byte_at(block + half * 64 + quarter % 2 * 32 + i) >> (quarter / 2 * 4) & 15;
                const int high = byte_at(block + 128 + half * 32 + i) >> (quarter * 2) & 3;
                const auto scale = static_cast<std::int8_t>(byte_at(scales + half * 8 + quarter * 2 + i / 16));
                out[half * 128 + quarter * 32 + i] =
                    d * static_cast<float>(scale) * static_cast<float>((low | high << 4) - 32);
            }
}

void decode_block(StoredType type, const std::byte* block, float* out) {
    switch (type) {
        case StoredType::q8_0:
            return decode_q8_0(block, out);
        case StoredType::q4_0:
            return decode_nibbles(block + 2, 0, half_at(block), 8, 0.0F, out);
        case StoredType::q4_1:
            return decode_nibbles(block + 4, 0, half_at(block), 0, half_at(block + 2), out);
        case StoredType::q5_0:
            return decode_nibbles(block + 6, bits32(block + 2), half_at(block), 16, 0.0F, out);
        case StoredType::q5_1:
            return decode_nibbles(block + 8, bits32(block + 4), half_at(block), 0, half_at(block + 2), out);
        case StoredType::q4_k:
            return decode_k4(block, nullptr, block + 16, out);
        case StoredType::q5_k:
            return decode_k4(block, block + 16, block + 48, out);
        case StoredType::q6_k:
            return decode_q6_k(block, out);
        case StoredType::f32:
        case StoredType::f16:
        case StoredType::bf16:
            break;
    }
    CHAOS_ASSERT(!"a type without blocks");
}

// A scale as small as this is stored as zero, and its inverse must not overflow.
float inverse_of(float d) {
    return std::fabs(d) > 1e-30F ? 1.0F / d : 0.0F;
}

void encode_q8_0(const float* values, std::byte* block) {
    float largest = 0.0F;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(values[i]));
    const float d = largest / 127.0F;
    const float inverse = inverse_of(d);
    put_half(block, d);
    for (int i = 0; i < 32; ++i)
        block[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(std::round(values[i] * inverse)));
}

void encode_q4_0(const float* values, std::byte* block) {
    float extreme = 0.0F;  // the value farthest from zero, with its sign, becomes -8
    for (int i = 0; i < 32; ++i)
        if (std::fabs(values[i]) > std::fabs(extreme)) extreme = values[i];
    const float d = extreme / -8.0F;
    const float inverse = inverse_of(d);
    put_half(block, d);
    const auto level = [&](float value) {
        return static_cast<unsigned>(std::min(15, static_cast<int>(value * inverse + 8.5F)));
    };
    for (int i = 0; i < 16; ++i) block[2 + i] = static_cast<std::byte>(level(values[i]) | level(values[i + 16]) << 4);
}

}  // namespace

const Blocks& blocks_of(StoredType type) {
    const Blocks& blocks = all_blocks[static_cast<std::size_t>(type)];
    CHAOS_ASSERT(blocks.type == type);
    return blocks;
}

std::optional<StoredType> stored_type_of_gguf(std::uint32_t gguf_type) {
    for (const Blocks& blocks : all_blocks)
        if (blocks.gguf_type == gguf_type) return blocks.type;
    return std::nullopt;
}

std::uint64_t row_bytes(StoredType type, std::uint64_t columns) {
    const Blocks& blocks = blocks_of(type);
    CHAOS_ASSERT(columns % blocks.columns == 0);
    return columns / blocks.columns * blocks.bytes;
}

void decode_row(StoredType type, std::span<const std::byte> row, std::span<float> out) {
    CHAOS_ASSERT(row.size() == row_bytes(type, out.size()));
    switch (type) {
        case StoredType::f32:
            std::memcpy(out.data(), row.data(), row.size());
            return;
        case StoredType::f16:
            for (std::size_t i = 0; i < out.size(); ++i) out[i] = half_at(row.data() + 2 * i);
            return;
        case StoredType::bf16:
            for (std::size_t i = 0; i < out.size(); ++i) out[i] = bf16_to_float(bits16(row.data() + 2 * i));
            return;
        default:
            break;
    }
    const Blocks& blocks = blocks_of(type);
    for (std::size_t block = 0; block < out.size() / blocks.columns; ++block)
        decode_block(type, row.data() + block * blocks.bytes, out.data() + block * blocks.columns);
}

void encode_row(StoredType type, std::span<const float> values, std::span<std::byte> row) {
    CHAOS_ASSERT(row.size() == row_bytes(type, values.size()));
    switch (type) {
        case StoredType::f32:
            std::memcpy(row.data(), values.data(), row.size());
            return;
        case StoredType::f16:
            for (std::size_t i = 0; i < values.size(); ++i) put_half(row.data() + 2 * i, values[i]);
            return;
        case StoredType::q8_0:
            for (std::size_t block = 0; block < values.size() / 32; ++block)
                encode_q8_0(values.data() + block * 32, row.data() + block * 34);
            return;
        case StoredType::q4_0:
            for (std::size_t block = 0; block < values.size() / 32; ++block)
                encode_q4_0(values.data() + block * 32, row.data() + block * 18);
            return;
        default:
            CHAOS_ASSERT(!"a type that is only read");
    }
}

}  // namespace chaos::infer
