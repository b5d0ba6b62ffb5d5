// multiply_panels() of f32, f16 and bf16, for the instruction sets of the machine. Lanes are rows of weights.
#include "infer/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infer/float_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/assert.h"
#include "infer/panel_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace chaos::infer::HWY_NAMESPACE {

#if !HWY_NATIVE_FMA

void multiply_float_panels(const PanelJob& job) {
    portable::multiply_panels(job);
}

#else

template <Format format>
constexpr std::size_t weight_bytes = format == Format::f32 ? 4 : 2;

template <Format format>
HWY_INLINE FloatVector load_weights(const std::byte* from) {
    if constexpr (format == Format::f32) {
        return hn::Load(Floats(), reinterpret_cast<const float*>(from));
    } else if constexpr (format == Format::f16) {
        return load_f16(from);
    } else {
        const hn::Rebind<hwy::bfloat16_t, Floats> halves;
        return hn::PromoteTo(Floats(), hn::Load(halves, reinterpret_cast<const hwy::bfloat16_t*>(from)));
    }
}

// One row of activations through one panel.
template <Format format>
HWY_NOINLINE void float_row(const PanelJob& job, std::size_t panel) {
    const Floats floats;
    const Matrix& matrix = job.matrix;
    const std::byte* column = matrix.packed + panel * panel_bytes(format, matrix.columns);
    for (std::size_t first = 0; first < matrix.columns; first += job.block_columns) {
        const std::size_t columns = std::min(job.block_columns, matrix.columns - first);
        const float* values = job.activations->floats(first / activation_columns, 0) + first % activation_columns;
        Sums<1, panel_vectors> sums;
        for (std::size_t i = 0; i < columns; ++i, column += panel_rows * weight_bytes<format>) {
            fetch_ahead(column, panel_rows * weight_bytes<format>);
            const FloatVector value = hn::Set(floats, values[i]);
            HWY_UNROLL(8)
            for (std::size_t j = 0; j < panel_vectors; ++j) {
                const FloatVector weights = load_weights<format>(column + j * lanes * weight_bytes<format>);
                sums.vectors[j] = hn::MulAdd(weights, value, sums.vectors[j]);
            }
        }
        sums.finish(job, {first == 0, 0, panel * panel_rows});
    }
}

// As many rows of weights and of activations as there are registers for their sums.
constexpr std::size_t float_vectors = lanes == 4 ? 4 : 2;
constexpr std::size_t float_tokens = lanes == 16 ? 12 : 6;

// A block of columns of one panel, as floats.
struct FloatBlock {
    const float* weights;  // 32 rows of each column
    std::size_t panel;
    std::size_t first;  // column
    std::size_t columns;
};

template <std::size_t tokens>
HWY_NOINLINE void float_tile(const PanelJob& job, const FloatBlock& block, std::size_t first_token) {
    const Floats floats;
    const float* values =
        job.activations->floats(block.first / activation_columns, first_token) + block.first % activation_columns;
    for (std::size_t vector = 0; vector < panel_vectors; vector += float_vectors) {
        Sums<tokens, float_vectors> sums;
        const float* weights = block.weights + vector * lanes;
        for (std::size_t i = 0; i < block.columns; ++i, weights += panel_rows) {
            FloatVector column[float_vectors];
            HWY_UNROLL(4)
            for (std::size_t j = 0; j < float_vectors; ++j) {
                column[j] = hn::Load(floats, weights + j * lanes);
            }
            HWY_UNROLL(12)
            for (std::size_t token = 0; token < tokens; ++token) {
                const FloatVector value = hn::Set(floats, values[token * activation_columns + i]);
                HWY_UNROLL(4)
                for (std::size_t j = 0; j < float_vectors; ++j) {
                    FloatVector& sum = sums.vectors[token * float_vectors + j];
                    sum = hn::MulAdd(column[j], value, sum);
                }
            }
        }
        sums.finish(job, {block.first == 0, first_token, block.panel * panel_rows + vector * lanes});
    }
}

// Some panels at a time, block by block: rows of activations are fetched once for all of them. Where they are many,
// they come from far.
constexpr std::size_t float_panels = 4;

template <Format format>
HWY_NOINLINE void float_panels_by_tokens(const PanelJob& job, std::size_t first_panel, std::size_t panels) {
    alignas(64) std::array<float, float_panels * activation_columns * panel_rows> converted;
    const Matrix& matrix = job.matrix;
    const std::size_t bytes = panel_bytes(format, matrix.columns);
    for (std::size_t first = 0; first < matrix.columns; first += job.block_columns) {
        const std::size_t columns = std::min(job.block_columns, matrix.columns - first);
        const std::size_t block_bytes = columns * panel_rows * weight_bytes<format>;
        std::array<FloatBlock, float_panels> blocks;
        std::array<const std::byte*, float_panels> next;
        for (std::size_t i = 0; i < panels; ++i) {
            const std::byte* packed =
                matrix.packed + (first_panel + i) * bytes + first * panel_rows * weight_bytes<format>;
            blocks[i] = {reinterpret_cast<const float*>(packed), first_panel + i, first, columns};
            next[i] = packed + block_bytes;
            if constexpr (format != Format::f32) {
                float* to = converted.data() + i * activation_columns * panel_rows;
                for (std::size_t j = 0; j < columns * panel_rows; j += lanes)
                    hn::Store(load_weights<format>(packed + j * 2), Floats(), to + j);
                blocks[i].weights = to;
            }
        }
        std::size_t token = 0;
        const auto take = [&]<std::size_t tokens>(std::integral_constant<std::size_t, tokens>) {
            for (; token + tokens <= job.activations->rows(); token += tokens)
                for (std::size_t i = 0; i < panels; ++i) {
                    NextWeights::share(job, next[i], block_bytes, token, tokens).fetch(0, 1);
                    float_tile<tokens>(job, blocks[i], token);
                }
        };
        take(std::integral_constant<std::size_t, float_tokens>());
        if constexpr (float_tokens > 8) take(std::integral_constant<std::size_t, 8>());
        take(std::integral_constant<std::size_t, 4>());
        take(std::integral_constant<std::size_t, 2>());
        take(std::integral_constant<std::size_t, 1>());
    }
}

template <Format format>
void multiply_floats(const PanelJob& job) {
    if (job.activations->rows() == 1) {
        for (std::size_t panel = job.first_panel; panel < job.last_panel; ++panel) float_row<format>(job, panel);
        return;
    }
    for (std::size_t panel = job.first_panel; panel < job.last_panel; panel += float_panels)
        float_panels_by_tokens<format>(job, panel, std::min(float_panels, job.last_panel - panel));
}

void multiply_float_panels(const PanelJob& job) {
    switch (job.matrix.format) {
        case Format::f32:
            return multiply_floats<Format::f32>(job);
        case Format::f16:
            return multiply_floats<Format::f16>(job);
        case Format::bf16:
            return multiply_floats<Format::bf16>(job);
        default:
            CHAOS_ASSERT(false);
    }
}

#endif

}  // namespace chaos::infer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace chaos::infer {

HWY_EXPORT(multiply_float_panels);

void multiply_float_panels(const PanelJob& job) {
    HWY_DYNAMIC_DISPATCH(multiply_float_panels)(job);
}

}  // namespace chaos::infer

#endif
