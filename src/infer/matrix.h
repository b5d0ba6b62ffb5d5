// infer/ computes what a trained language model says: weights, kernels, engine. No LibTorch. It may call base, text and
// state; serve, node and cli call it.
//
// A Matrix is a view of packed weights. Rows are interleaved in panels of 32, so that a kernel's lanes are rows and
// every row's sum is taken in one order, whatever the instruction set and however many rows of activations are
// multiplied at once (multiply.h). The layout is a function of format and shape alone: packed bytes can be kept in a
// file and read on any machine. The last panel is filled up with zeros.
//
//   panel 0 | panel 1 | ...          each panel_bytes(format, columns) long, a multiple of 64
//
//   f32, f16, bf16    column 0: 32 rows | column 1: 32 rows | ...
//
//   q8_0, q4_0        per 32 columns: 32 scales (f16) | a word of row 0, of row 1, ... row 31 | their next words | ...
//
// where a word is 4 bytes: in q8_0 of 4 columns, in q4_0 of 8, the first 4 in the low halves and the others in the high
// ones, as value + 8.
//
// Packing goes panel by panel from rows as files have them, so nobody needs a second copy of the weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace chaos::infer {

enum class Format : std::uint8_t { f32, f16, bf16, q8_0, q4_0 };

inline constexpr std::size_t panel_rows = 32;
// In quantized formats these share a scale, and the number of columns is a multiple of it.
inline constexpr std::size_t scale_columns = 32;

// "q4_0"
[[nodiscard]] const char* name_of(Format format);
[[nodiscard]] bool is_quantized(Format format);
// Whether rows of so many columns can be kept in the format.
[[nodiscard]] bool fits(Format format, std::size_t columns);

// A row in the order of files: values one after the other; q8_0: per 32 columns a scale (f16) and 32 bytes; q4_0: a
// scale and 16 bytes whose low halves are columns 0..15, whose high ones 16..31, as value + 8 (that is GGUF's).
[[nodiscard]] std::size_t row_bytes(Format format, std::size_t columns);

[[nodiscard]] std::size_t panel_bytes(Format format, std::size_t columns);
[[nodiscard]] std::size_t panels_of(std::size_t rows);
[[nodiscard]] std::size_t packed_bytes(Format format, std::size_t rows, std::size_t columns);

// Packs up to 32 rows, each row_bytes long, into the panel; rows that are not there are zeros. Rows need not be
// neighbours in the file: a permutation costs nothing.
void pack_panel(Format format, std::size_t columns, std::span<const std::byte* const> rows, std::byte* panel);

struct Matrix {
    Format format = Format::f32;
    std::size_t rows = 0;
    std::size_t columns = 0;
    const std::byte* packed = nullptr;  // aligned to 64
};

}  // namespace chaos::infer
