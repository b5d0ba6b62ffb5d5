#include "infer/activations.h"

#include "base/assert.h"
#include "infer/kernels.h"

#include <algorithm>

namespace chaos::infer {

void Activations::resize(std::size_t rows, std::size_t columns, Forms forms) {
    CHAOS_ASSERT(!forms.bytes || columns % scale_columns == 0);
    rows_ = rows;
    columns_ = columns;
    forms_ = forms;
    const std::size_t blocks = (columns + activation_columns - 1) / activation_columns * rows;
    if (forms.floats) floats_.resize(blocks * activation_columns);
    if (!forms.bytes) return;
    bytes_.resize(blocks * activation_columns);
    scales_.resize(blocks * block_scales);
    offsets4_.resize(blocks * block_scales);
    offsets8_.resize(blocks * block_scales);
}

void Activations::set(std::size_t row, std::span<const float> values) {
    CHAOS_ASSERT(row < rows_ && values.size() == columns_);
    for (std::size_t first = 0; first < columns_; first += activation_columns) {
        const std::size_t index = first / activation_columns * rows_ + row;
        const std::span block = values.subspan(first, std::min(activation_columns, columns_ - first));
        if (forms_.floats)
            std::ranges::copy(block, floats_.begin() + static_cast<std::ptrdiff_t>(index * activation_columns));
        if (!forms_.bytes) continue;
        for (std::size_t i = 0; i < block.size() / scale_columns; ++i) {
            const std::size_t at = index * block_scales + i;
            const Quantized quantized =
                quantize_columns(block.data() + i * scale_columns, bytes_.data() + at * scale_columns);
            scales_[at] = quantized.scale;
            offsets4_[at] = -8 * quantized.sum;
            offsets8_[at] = -128 * quantized.sum;
        }
    }
}

}  // namespace chaos::infer
