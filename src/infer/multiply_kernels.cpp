// multiply_panels() for the instruction sets of the machine. Lanes are rows of weights.
#include "infer/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infer/multiply_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/assert.h"
#include "infer/kernels.h"
#include "infer/multiply.h"

#include <algorithm>
#include <array>

HWY_BEFORE_NAMESPACE();
namespace chaos::infer::HWY_NAMESPACE {

#if !HWY_NATIVE_FMA

void multiply_panels(const PanelJob& job) {
    portable::multiply_panels(job);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Bytes = hn::Repartition<std::uint8_t, Floats>;
using Shorts = hn::Repartition<std::int16_t, Floats>;
using FloatVector = hn::Vec<Floats>;
using IntVector = hn::Vec<Ints>;
using ByteVector = hn::Vec<Bytes>;

constexpr std::size_t lanes = hn::MaxLanes(Floats());
constexpr std::size_t panel_vectors = panel_rows / lanes;
constexpr std::size_t panel_scale_bytes = panel_rows * 2;

// How many panels a single row of activations goes through at once: memory answers best when asked at several places,
// and sums that do not depend on each other hide the latency of an addition.
constexpr std::size_t streams = 4;

// Adds a block's sum to the results of `lanes` rows.
HWY_INLINE void finish_block(const PanelJob& job, bool first, std::size_t token, std::size_t row, FloatVector sum) {
    const Floats floats;
    const std::size_t at = token * job.stride + row;
    if (row + lanes > job.matrix.rows) {
        alignas(64) std::array<float, lanes> values{};
        hn::Store(sum, floats, values.data());
        for (std::size_t i = 0; row + i < job.matrix.rows; ++i) {
            if (job.results != nullptr) {
                job.results[at + i] = (first ? 0.0F : job.results[at + i]) + values[i];
            } else {
                job.sums[at + i] += to_fixed(values[i]);
            }
        }
        return;
    }
    if (job.results != nullptr) {
        float* to = job.results + at;
        hn::StoreU(hn::Add(first ? hn::Zero(floats) : hn::LoadU(floats, to), sum), floats, to);
        return;
    }
    const FloatVector limit = hn::Set(floats, fixed_limit);
    const FloatVector above = hn::IfThenElse(hn::Gt(sum, hn::Neg(limit)), sum, hn::Neg(limit));
    const FloatVector limited = hn::IfThenElse(hn::Lt(above, limit), above, limit);
    const hn::Repartition<double, Floats> doubles;
    const hn::RebindToSigned<decltype(doubles)> longs;
    const auto ones = hn::Set(doubles, 0x1.8p52);
    const auto add = [&](auto half, std::int64_t* to) HWY_ATTR {
        const auto scaled = hn::Add(hn::Mul(hn::PromoteTo(doubles, half), hn::Set(doubles, fixed_unit)), ones);
        const auto rounded = hn::Sub(hn::BitCast(longs, scaled), hn::BitCast(longs, ones));
        hn::StoreU(hn::Add(hn::LoadU(longs, to), rounded), longs, to);
    };
    add(hn::LowerHalf(limited), job.sums + at);
    add(hn::UpperHalf(hn::Half<Floats>(), limited), job.sums + at + lanes / 2);
}

// 32 columns of `lanes` rows of a quantized panel: vectors that hold four columns of each row.
struct Group {
    ByteVector columns[scale_columns / 4];
    FloatVector scales;
};

HWY_INLINE FloatVector load_f16(const std::byte* from) {
    const hn::Rebind<hwy::float16_t, Floats> halves;
    return hn::PromoteTo(Floats(), hn::Load(halves, reinterpret_cast<const hwy::float16_t*>(from)));
}

template <Format format>
HWY_INLINE Group load_group(const std::byte* group, std::size_t vector) {
    const Bytes bytes;
    const hn::Repartition<std::uint16_t, Floats> shorts;
    Group to;
    to.scales = load_f16(group + vector * lanes * 2);
    const auto* from = reinterpret_cast<const std::uint8_t*>(group) + panel_scale_bytes + vector * lanes * 4;
    if constexpr (format == Format::q4_0) {
        const ByteVector low = hn::Set(bytes, 0xf);
        HWY_UNROLL(4)
        for (std::size_t i = 0; i < 4; ++i) {
            const ByteVector both = hn::Load(bytes, from + i * panel_rows * 4);
            to.columns[2 * i] = hn::And(both, low);
            to.columns[2 * i + 1] = hn::And(hn::BitCast(bytes, hn::ShiftRight<4>(hn::BitCast(shorts, both))), low);
        }
    } else {
        HWY_UNROLL(8)
        for (std::size_t i = 0; i < 8; ++i) {
            to.columns[i] = hn::Load(bytes, from + i * panel_rows * 4);
#if HWY_TARGET == HWY_AVX3_DL
            to.columns[i] = hn::Xor(to.columns[i], hn::Set(bytes, 0x80));  // as value + 128
#endif
        }
    }
    return to;
}

HWY_INLINE IntVector four_columns(const std::int8_t* activations) {
    std::int32_t four = 0;
    hwy::CopyBytes<4>(activations, &four);
    return hn::Set(Ints(), four);
}

// The sums of products of 32 columns. Integers, so every way to add them gives the same.
template <Format format>
HWY_INLINE IntVector exact_sums(const Group& group, const std::int8_t* activations, const std::int32_t* offset) {
    const Ints ints;
#if HWY_TARGET == HWY_AVX3_DL
    IntVector sums = hn::Set(ints, *offset);
    HWY_UNROLL(8)
    for (std::size_t i = 0; i < 8; ++i) {
        // Highway 1.0.3 asks the machine for AVX512-VNNI but the compiler for AVX-VNNI, which is another one.
        asm("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(sums.raw)
            : "v"(group.columns[i].raw), "m"(*reinterpret_cast<const std::array<char, 4>*>(activations + 4 * i)));
    }
    return sums;
#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    const Shorts shorts;
    const auto products = [](ByteVector weights, IntVector values) HWY_ATTR {
#if HWY_TARGET == HWY_AVX3
        return hn::Vec<Shorts>{_mm512_maddubs_epi16(weights.raw, values.raw)};
#else
        return hn::Vec<Shorts>{_mm256_maddubs_epi16(weights.raw, values.raw)};
#endif
    };
    const auto widened = [&](hn::Vec<Shorts> values) HWY_ATTR {
#if HWY_TARGET == HWY_AVX3
        return IntVector{_mm512_madd_epi16(values.raw, hn::Set(shorts, 1).raw)};
#else
        return IntVector{_mm256_madd_epi16(values.raw, hn::Set(shorts, 1).raw)};
#endif
    };
    if constexpr (format == Format::q4_0) {
        // 16 products of at most 15 * 127 fit into 16 bits.
        hn::Vec<Shorts> sums = products(group.columns[0], four_columns(activations));
        HWY_UNROLL(7)
        for (std::size_t i = 1; i < 8; ++i)
            sums = hn::Add(sums, products(group.columns[i], four_columns(activations + 4 * i)));
        return hn::Add(widened(sums), hn::Set(ints, *offset));
    } else {
        // One factor must be without sign; two products of at most 128 * 127 fit into 16 bits.
        const hn::RebindToSigned<Bytes> signed_bytes;
        IntVector sums = hn::Zero(ints);
        HWY_UNROLL(8)
        for (std::size_t i = 0; i < 8; ++i) {
            const auto weights = hn::BitCast(signed_bytes, group.columns[i]);
            const auto values = hn::BitCast(signed_bytes, four_columns(activations + 4 * i));
#if HWY_TARGET == HWY_AVX3
            const auto turned = hn::IfThenElse(hn::Lt(weights, hn::Zero(signed_bytes)), hn::Neg(values), values);
#else
            const hn::VFromD<decltype(signed_bytes)> turned{_mm256_sign_epi8(values.raw, weights.raw)};
#endif
            sums = hn::Add(sums, widened(products(hn::BitCast(Bytes(), hn::Abs(weights)), hn::BitCast(ints, turned))));
        }
        return sums;
    }
#else
    const hn::RebindToSigned<Bytes> signed_bytes;
    const hn::Half<decltype(signed_bytes)> half;
    const Shorts shorts;
    // Four columns of a row are neighbours: pairs are added twice.
    IntVector low = hn::Zero(ints);
    IntVector high = hn::Zero(ints);
    for (std::size_t i = 0; i < 8; ++i) {
        const auto weights = hn::BitCast(signed_bytes, group.columns[i]);
        const auto values = hn::BitCast(signed_bytes, four_columns(activations + 4 * i));
        const auto products = [&](auto w, auto v)
                                  HWY_ATTR { return hn::Mul(hn::PromoteTo(shorts, w), hn::PromoteTo(shorts, v)); };
        const auto add_pairs = [&](auto both) HWY_ATTR {
            const auto pairs = hn::BitCast(ints, both);
            return hn::Add(hn::ShiftRight<16>(hn::ShiftLeft<16>(pairs)), hn::ShiftRight<16>(pairs));
        };
        low = hn::Add(low, add_pairs(products(hn::LowerHalf(weights), hn::LowerHalf(values))));
        high = hn::Add(high, add_pairs(products(hn::UpperHalf(half, weights), hn::UpperHalf(half, values))));
    }
    const auto evens = hn::ConcatEven(ints, high, low);
    const auto odds = hn::ConcatOdd(ints, high, low);
    const auto sums = hn::Add(evens, odds);
    return format == Format::q4_0 ? hn::Add(sums, hn::Set(ints, *offset)) : sums;
#endif
}

// Where a row's activations lie, in a block of 256 columns, from a column on.
struct QuantizedAt {
    const std::int8_t* bytes;
    const float* scales;
    const std::int32_t* offsets;

    template <Format format>
    static QuantizedAt of(const Activations& activations, std::size_t token, std::size_t column) {
        const std::size_t block = column / activation_columns;
        const std::size_t within = column % activation_columns;
        return {activations.bytes(block, token) + within, activations.scales(block, token) + within / scale_columns,
                activations.offsets(format, block, token) + within / scale_columns};
    }
};

// One row of activations through `count` panels at once.
template <Format format, std::size_t count>
HWY_NOINLINE void quantized_row(const PanelJob& job, std::size_t first_panel) {
    const Floats floats;
    const Matrix& matrix = job.matrix;
    const std::size_t group_bytes = panel_bytes(format, scale_columns);
    const std::size_t bytes = panel_bytes(format, matrix.columns);
    const std::byte* group = matrix.packed + first_panel * bytes;
    for (std::size_t first = 0; first < matrix.columns; first += job.block_columns) {
        const std::size_t groups = std::min(job.block_columns, matrix.columns - first) / scale_columns;
        const QuantizedAt at = QuantizedAt::of<format>(*job.activations, 0, first);
        FloatVector sums[count * panel_vectors];
        HWY_UNROLL(16)
        for (FloatVector& sum : sums) sum = hn::Zero(floats);
        for (std::size_t i = 0; i < groups; ++i, group += group_bytes) {
            const FloatVector scale = hn::Set(floats, at.scales[i]);
            HWY_UNROLL(16)
            for (std::size_t j = 0; j < count * panel_vectors; ++j) {
                const Group weights = load_group<format>(group + j / panel_vectors * bytes, j % panel_vectors);
                const IntVector exact = exact_sums<format>(weights, at.bytes + i * scale_columns, at.offsets + i);
                sums[j] = hn::MulAdd(hn::ConvertTo(floats, exact), hn::Mul(weights.scales, scale), sums[j]);
            }
        }
        for (std::size_t j = 0; j < count * panel_vectors; ++j)
            finish_block(job, first == 0, 0, first_panel * panel_rows + j * lanes, sums[j]);
    }
}

// `tokens` rows of activations through one panel: weights are unpacked once for all.
template <Format format, std::size_t tokens>
HWY_NOINLINE void quantized_tile(const PanelJob& job, std::size_t panel, std::size_t first_token) {
    const Floats floats;
    const Matrix& matrix = job.matrix;
    const std::size_t group_bytes = panel_bytes(format, scale_columns);
    for (std::size_t vector = 0; vector < panel_vectors; ++vector) {
        const std::byte* group = matrix.packed + panel * panel_bytes(format, matrix.columns);
        for (std::size_t first = 0; first < matrix.columns; first += job.block_columns) {
            const std::size_t groups = std::min(job.block_columns, matrix.columns - first) / scale_columns;
            const QuantizedAt at = QuantizedAt::of<format>(*job.activations, first_token, first);
            FloatVector sums[tokens];
            HWY_UNROLL(16)
            for (FloatVector& sum : sums) sum = hn::Zero(floats);
            for (std::size_t i = 0; i < groups; ++i, group += group_bytes) {
                const Group weights = load_group<format>(group, vector);
                HWY_UNROLL(16)
                for (std::size_t token = 0; token < tokens; ++token) {
                    const std::size_t scale = token * block_scales + i;
                    const IntVector exact =
                        exact_sums<format>(weights, at.bytes + scale * scale_columns, at.offsets + scale);
                    sums[token] = hn::MulAdd(hn::ConvertTo(floats, exact),
                                             hn::Mul(weights.scales, hn::Set(floats, at.scales[scale])), sums[token]);
                }
            }
            for (std::size_t token = 0; token < tokens; ++token)
                finish_block(job, first == 0, first_token + token, panel * panel_rows + vector * lanes, sums[token]);
        }
    }
}

template <Format format>
void multiply_quantized(const PanelJob& job) {
    std::size_t panel = job.first_panel;
    if (job.activations->rows() == 1) {
        for (; panel + streams <= job.last_panel; panel += streams) quantized_row<format, streams>(job, panel);
        for (; panel < job.last_panel; ++panel) quantized_row<format, 1>(job, panel);
        return;
    }
    for (; panel < job.last_panel; ++panel) {
        std::size_t token = 0;
        const auto take = [&]<std::size_t tokens>(std::integral_constant<std::size_t, tokens>) {
            for (; token + tokens <= job.activations->rows(); token += tokens)
                quantized_tile<format, tokens>(job, panel, token);
        };
        take(std::integral_constant<std::size_t, 16>());
        take(std::integral_constant<std::size_t, 8>());
        take(std::integral_constant<std::size_t, 4>());
        take(std::integral_constant<std::size_t, 2>());
        take(std::integral_constant<std::size_t, 1>());
    }
}

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

// One row of activations through `count` panels at once.
template <Format format, std::size_t count>
HWY_NOINLINE void float_row(const PanelJob& job, std::size_t first_panel) {
    const Floats floats;
    const Matrix& matrix = job.matrix;
    const std::size_t bytes = panel_bytes(format, matrix.columns);
    const std::byte* column = matrix.packed + first_panel * bytes;
    for (std::size_t first = 0; first < matrix.columns; first += job.block_columns) {
        const std::size_t columns = std::min(job.block_columns, matrix.columns - first);
        const float* values = job.activations->floats(first / activation_columns, 0) + first % activation_columns;
        FloatVector sums[count * panel_vectors];
        HWY_UNROLL(16)
        for (FloatVector& sum : sums) sum = hn::Zero(floats);
        for (std::size_t i = 0; i < columns; ++i, column += panel_rows * weight_bytes<format>) {
            const FloatVector value = hn::Set(floats, values[i]);
            HWY_UNROLL(16)
            for (std::size_t j = 0; j < count * panel_vectors; ++j) {
                const std::byte* from =
                    column + j / panel_vectors * bytes + j % panel_vectors * lanes * weight_bytes<format>;
                sums[j] = hn::MulAdd(load_weights<format>(from), value, sums[j]);
            }
        }
        for (std::size_t j = 0; j < count * panel_vectors; ++j)
            finish_block(job, first == 0, 0, first_panel * panel_rows + j * lanes, sums[j]);
    }
}

// As many rows of weights and of activations as there are registers for their sums.
constexpr std::size_t tile_vectors = lanes == 4 ? 4 : 2;
constexpr std::size_t tile_tokens = lanes == 16 ? 12 : 6;

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
    for (std::size_t vector = 0; vector < panel_vectors; vector += tile_vectors) {
        FloatVector sums[tokens * tile_vectors];
        HWY_UNROLL(32)
        for (FloatVector& sum : sums) sum = hn::Zero(floats);
        const float* weights = block.weights + vector * lanes;
        for (std::size_t i = 0; i < block.columns; ++i, weights += panel_rows) {
            FloatVector column[tile_vectors];
            HWY_UNROLL(4)
            for (std::size_t j = 0; j < tile_vectors; ++j) column[j] = hn::Load(floats, weights + j * lanes);
            HWY_UNROLL(12)
            for (std::size_t token = 0; token < tokens; ++token) {
                const FloatVector value = hn::Set(floats, values[token * activation_columns + i]);
                HWY_UNROLL(4)
                for (std::size_t j = 0; j < tile_vectors; ++j)
                    sums[token * tile_vectors + j] = hn::MulAdd(column[j], value, sums[token * tile_vectors + j]);
            }
        }
        for (std::size_t i = 0; i < tokens * tile_vectors; ++i)
            finish_block(job, block.first == 0, first_token + i / tile_vectors,
                         block.panel * panel_rows + (vector + i % tile_vectors) * lanes, sums[i]);
    }
}

template <Format format>
void multiply_floats(const PanelJob& job) {
    std::size_t panel = job.first_panel;
    if (job.activations->rows() == 1) {
        for (; panel + streams <= job.last_panel; panel += streams) float_row<format, streams>(job, panel);
        for (; panel < job.last_panel; ++panel) float_row<format, 1>(job, panel);
        return;
    }
    alignas(64) std::array<float, activation_columns * panel_rows> converted;
    const Matrix& matrix = job.matrix;
    for (; panel < job.last_panel; ++panel) {
        const std::byte* column = matrix.packed + panel * panel_bytes(format, matrix.columns);
        for (std::size_t first = 0; first < matrix.columns; first += job.block_columns) {
            FloatBlock block{reinterpret_cast<const float*>(column), panel, first,
                             std::min(job.block_columns, matrix.columns - first)};
            if constexpr (format != Format::f32) {
                for (std::size_t i = 0; i < block.columns * panel_rows; i += lanes)
                    hn::Store(load_weights<format>(column + i * 2), Floats(), converted.data() + i);
                block.weights = converted.data();
            }
            column += block.columns * panel_rows * weight_bytes<format>;
            std::size_t token = 0;
            const auto take = [&]<std::size_t tokens>(std::integral_constant<std::size_t, tokens>) {
                for (; token + tokens <= job.activations->rows(); token += tokens)
                    float_tile<tokens>(job, block, token);
            };
            take(std::integral_constant<std::size_t, tile_tokens>());
            take(std::integral_constant<std::size_t, 4>());
            take(std::integral_constant<std::size_t, 2>());
            take(std::integral_constant<std::size_t, 1>());
        }
    }
}

void multiply_panels(const PanelJob& job) {
    switch (job.matrix.format) {
        case Format::f32:
            return multiply_floats<Format::f32>(job);
        case Format::f16:
            return multiply_floats<Format::f16>(job);
        case Format::bf16:
            return multiply_floats<Format::bf16>(job);
        case Format::q8_0:
            return multiply_quantized<Format::q8_0>(job);
        case Format::q4_0:
            return multiply_quantized<Format::q4_0>(job);
    }
    CHAOS_ASSERT(false);
}

#endif

}  // namespace chaos::infer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace chaos::infer {

HWY_EXPORT(multiply_panels);

void multiply_panels(const PanelJob& job) {
    HWY_DYNAMIC_DISPATCH(multiply_panels)(job);
}

std::vector<std::int64_t> compiled_targets() {
    return hwy::SupportedAndGeneratedTargets();
}

}  // namespace chaos::infer

#endif
