// Rows of activations, prepared once for all matrices that multiply them: as floats for f32, f16 and bf16, as bytes
// with a scale per 32 columns for quantized formats.
//
// Columns lie in blocks of 256, inside a block row after row: what a kernel reads at once is together.
//
//   columns 0..255 of row 0, of row 1, ... | columns 256..511 of row 0, of row 1, ... | ...
//
// Bytes: the greatest magnitude of 32 columns becomes 127, the others are rounded to nearest, ties to even. Columns
// whose greatest magnitude is below 1e-30 are 0; where one is infinite or not a number, all sums that read it are not
// numbers.
#pragma once

#include "infer/matrix.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chaos::infer {

inline constexpr std::size_t activation_columns = 256;
inline constexpr std::size_t block_scales = activation_columns / scale_columns;

class Activations {
public:
    // What the matrices that read them need.
    struct Forms {
        bool floats = false;
        bool bytes = false;
        void add(Format format) { (is_quantized(format) ? bytes : floats) = true; }
    };

    // Makes room for `rows` of `columns`; what was there is lost. Memory is kept for the next time.
    void resize(std::size_t rows, std::size_t columns, Forms forms);
    // Different rows may be set by different threads at once.
    void set(std::size_t row, std::span<const float> values);

    [[nodiscard]] std::size_t rows() const { return rows_; }
    [[nodiscard]] std::size_t columns() const { return columns_; }
    [[nodiscard]] Forms forms() const { return forms_; }

    // Of a row and a block of 256 columns.
    [[nodiscard]] const float* floats(std::size_t block, std::size_t row) const {
        return floats_.data() + (block * rows_ + row) * activation_columns;
    }
    [[nodiscard]] const std::int8_t* bytes(std::size_t block, std::size_t row) const {
        return bytes_.data() + (block * rows_ + row) * activation_columns;
    }
    [[nodiscard]] const float* scales(std::size_t block, std::size_t row) const {
        return scales_.data() + (block * rows_ + row) * block_scales;
    }
    // Weights are stored as value + 8 in q4_0 and multiplied as value + 128 in q8_0: these, added to such sums of
    // products, give the true ones. -8 or -128 times the sum of 32 bytes each.
    [[nodiscard]] const std::int32_t* offsets(Format format, std::size_t block, std::size_t row) const {
        return (format == Format::q4_0 ? offsets4_ : offsets8_).data() + (block * rows_ + row) * block_scales;
    }

private:
    std::size_t rows_ = 0;
    std::size_t columns_ = 0;
    Forms forms_;
    std::vector<float> floats_;
    std::vector<std::int8_t> bytes_;
    std::vector<float> scales_;
    std::vector<std::int32_t> offsets4_;
    std::vector<std::int32_t> offsets8_;
};

}  // namespace chaos::infer
