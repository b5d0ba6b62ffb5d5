// How the numbers of a weight lie in a file: plain (F32, F16, BF16) or in blocks, as llama.cpp quantizes them. A row is
// a whole number of blocks; a block is small integers with one or two scales (all numbers little-endian, d and m F16):
//
//   Q8_0   32 columns   d, 32 x int8                            x = d q
//   Q4_0   32           d, 16 bytes: columns i and i + 16        x = d (q - 8)
//   Q4_1   32           d, m, 16 bytes                           x = d q + m
//   Q5_0   32           d, 32 fifth bits, 16 bytes               x = d (q - 16)
//   Q5_1   32           d, m, 32 fifth bits, 16 bytes            x = d q + m
//   Q4_K  256           d, m, 8 x (6-bit s, 6-bit t), 128 bytes  x = d s q - m t, per 32 columns
//   Q5_K  256           as Q4_K, with 256 fifth bits             x = d s q - m t
//   Q6_K  256           256 x 6 bits, 16 x int8 s, d             x = d s (q - 32), per 16 columns
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace chaos::infer {

enum class StoredType { f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k };

struct Blocks {
    StoredType type = StoredType::f32;
    std::string_view name;
    std::uint32_t gguf_type = 0;  // its number in GGUF files
    std::uint32_t columns = 1;    // in a block
    std::uint32_t bytes = 4;      // of a block
};
[[nodiscard]] const Blocks& blocks_of(StoredType type);
[[nodiscard]] std::optional<StoredType> stored_type_of_gguf(std::uint32_t gguf_type);

// `columns` must be a whole number of blocks.
[[nodiscard]] std::uint64_t row_bytes(StoredType type, std::uint64_t columns);

// Reads one row; `row` has row_bytes() bytes.
void decode_row(StoredType type, std::span<const std::byte> row, std::span<float> out);

// Writes one row of finite values as F32, F16, Q8_0 or Q4_0, rounded as llama.cpp's reference does; `row` has
// row_bytes() bytes.
void encode_row(StoredType type, std::span<const float> values, std::span<std::byte> row);

}  // namespace chaos::infer
