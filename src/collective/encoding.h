// How floats travel. A chunk is encoded by itself, and its size follows from the number of its floats alone:
//
//   fp32   n x 4 bytes     the bits themselves
//   fp16   n x 2 bytes     IEEE half: rounded to nearest even, beyond 65504 infinity
//   bf16   n x 2 bytes     the upper half of a float, rounded to nearest even
//   int8   per block of 128 floats (the last may be shorter): the scale as a float, then a byte per float
//
//          | scale | q0 q1 ... q127 | scale | q0 ... |      value = q * scale, scale = largest magnitude / 127
//
// Little-endian. Every machine and every instruction set gives the same bits: only + - x / on floats, in a fixed order,
// and integers. What is not a number stays so: a NaN becomes the quiet NaN of its sign (fp16, bf16); a block of int8
// that holds a NaN or an infinity, or whose scale is not finite when it arrives, is NaN as a whole, so that a sick
// contribution cannot hide. A block of int8 whose values are all below 2^-100 is zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include "base/instruction_sets.h"

namespace chaos::collective {

enum class Encoding : std::uint8_t { fp32, fp16, bf16, int8 };
[[nodiscard]] const char* name_of(Encoding encoding);

// Pieces of a chunk that are this long (but for the last) are encoded and decoded one by one as well as at once.
inline constexpr std::uint64_t encoding_block_floats = 128;

[[nodiscard]] std::uint64_t encoded_bytes(Encoding encoding, std::uint64_t floats);

// `path`: only tests ask for particular instructions.
// `encoded` is exactly encoded_bytes(floats.size()) long and aligned as a float is.
void encode(Encoding encoding, std::span<const float> floats, std::span<std::byte> encoded, Path path = Path::best);
void decode(Encoding encoding, std::span<const std::byte> encoded, std::span<float> floats, Path path = Path::best);

// sum = base + decoded, element by element. `sum` may be `base`, or what `encoded` lies in where that is fp32, but
// must not overlap them in another way.
void add_decoded(Encoding encoding, std::span<const float> base, std::span<const std::byte> encoded,
                 std::span<float> sum, Path path = Path::best);

// left = sum - decoded where that is finite, else 0: what an encoding left out. `left` may be `sum` or `decoded`.
void left_out(std::span<const float> sum, std::span<const float> decoded, std::span<float> left);

}  // namespace chaos::collective
