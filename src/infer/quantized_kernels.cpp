// multiply_panels() of q8_0 and q4_0, for the instruction sets of the machine. Lanes are rows of weights.
#include "infer/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infer/quantized_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/assert.h"
#include "infer/panel_sums-inl.h"
#include "infer/tiles.h"

#include <optional>

HWY_BEFORE_NAMESPACE();
namespace chaos::infer::HWY_NAMESPACE {

#if !HWY_NATIVE_FMA

void multiply_quantized_panels(const PanelJob& job) {
    portable::multiply_panels(job);
}

#else

using Ints = hn::RebindToSigned<Floats>;
using Bytes = hn::Repartition<std::uint8_t, Floats>;
using Shorts = hn::Repartition<std::int16_t, Floats>;
using IntVector = hn::Vec<Ints>;
using ShortVector = hn::Vec<Shorts>;
using ByteVector = hn::Vec<Bytes>;

constexpr std::size_t panel_scale_bytes = panel_rows * 2;

// The i-th four columns of `lanes` rows, of 32 columns of a quantized panel.
template <Format format>
HWY_INLINE ByteVector load_columns(const std::byte* group, std::size_t vector, std::size_t i) {
    const Bytes bytes;
    const auto* from = reinterpret_cast<const std::uint8_t*>(group) + panel_scale_bytes + vector * lanes * 4;
    if constexpr (format == Format::q4_0) {
        const hn::Repartition<std::uint16_t, Floats> shorts;
        const ByteVector both = hn::Load(bytes, from + i / 2 * panel_rows * 4);
        const ByteVector shifted = i % 2 == 0 ? both : hn::BitCast(bytes, hn::ShiftRight<4>(hn::BitCast(shorts, both)));
        return hn::And(shifted, hn::Set(bytes, 0xf));
    } else {
        const ByteVector values = hn::Load(bytes, from + i * panel_rows * 4);
#if HWY_TARGET == HWY_AVX3_DL
        return hn::Xor(values, hn::Set(bytes, 0x80));  // as value + 128
#else
        return values;
#endif
    }
}

HWY_INLINE IntVector four_columns(const std::int8_t* activations) {
    std::int32_t four = 0;
    hwy::CopyBytes<4>(activations, &four);
    return hn::Set(Ints(), four);
}

// Sums of products of 32 columns. They are integers: every way to add them gives the same.
#if HWY_TARGET == HWY_AVX3_DL

template <Format format>
struct Exact {
    IntVector sums;

    HWY_INLINE void start(const std::int32_t* offset) { sums = hn::Set(Ints(), *offset); }
    HWY_INLINE void add(ByteVector weights, IntVector activations) {
        // Highway 1.0.3 asks the machine for AVX512-VNNI but the compiler for AVX-VNNI, which is another one.
        asm("vpdpbusd %2, %1, %0" : "+v"(sums.raw) : "v"(weights.raw), "v"(activations.raw));
    }
    [[nodiscard]] HWY_INLINE IntVector total(const std::int32_t*) const { return sums; }
};

#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

// Pairs of products of unsigned and signed bytes.
HWY_INLINE ShortVector pair_products(ByteVector x, IntVector y) {
#if HWY_TARGET == HWY_AVX3
    return {_mm512_maddubs_epi16(x.raw, y.raw)};
#else
    return {_mm256_maddubs_epi16(x.raw, y.raw)};
#endif
}

HWY_INLINE IntVector pair_sums(ShortVector values) {
    const ShortVector ones = hn::Set(Shorts(), 1);
#if HWY_TARGET == HWY_AVX3
    return {_mm512_madd_epi16(values.raw, ones.raw)};
#else
    return {_mm256_madd_epi16(values.raw, ones.raw)};
#endif
}

template <Format format>
struct Exact {
    IntVector sums;

    HWY_INLINE void start(const std::int32_t*) { sums = hn::Zero(Ints()); }
    HWY_INLINE void add(ByteVector weights, IntVector activations) {
        // One factor must be without sign. Two products of at most 128 * 127 fit into 16 bits.
        const hn::RebindToSigned<Bytes> bytes;
        const auto signed_weights = hn::BitCast(bytes, weights);
        const auto values = hn::BitCast(bytes, activations);
#if HWY_TARGET == HWY_AVX3
        const auto turned = hn::IfThenElse(hn::Lt(signed_weights, hn::Zero(bytes)), hn::Neg(values), values);
#else
        const hn::VFromD<decltype(bytes)> turned{_mm256_sign_epi8(values.raw, weights.raw)};
#endif
        const ByteVector magnitudes = hn::BitCast(Bytes(), hn::Abs(signed_weights));
        sums = hn::Add(sums, pair_sums(pair_products(magnitudes, hn::BitCast(Ints(), turned))));
    }
    [[nodiscard]] HWY_INLINE IntVector total(const std::int32_t*) const { return sums; }
};

template <>
struct Exact<Format::q4_0> {
    ShortVector sums;  // of 16 products of at most 15 * 127

    HWY_INLINE void start(const std::int32_t*) { sums = hn::Zero(Shorts()); }
    HWY_INLINE void add(ByteVector weights, IntVector activations) {
        sums = hn::Add(sums, pair_products(weights, activations));
    }
    [[nodiscard]] HWY_INLINE IntVector total(const std::int32_t* offset) const {
        return hn::Add(pair_sums(sums), hn::Set(Ints(), *offset));
    }
};

#else

template <Format format>
struct Exact {
    IntVector low;  // four columns of a row are neighbours: pairs are added twice
    IntVector high;

    // One that the compiler makes would be for another instruction set than its members.
    HWY_INLINE Exact() {}
    HWY_INLINE void start(const std::int32_t*) { low = high = hn::Zero(Ints()); }
    HWY_INLINE void add(ByteVector weights, IntVector activations) {
        const hn::RebindToSigned<Bytes> bytes;
        const hn::Half<decltype(bytes)> half;
        const auto signed_weights = hn::BitCast(bytes, weights);
        const auto values = hn::BitCast(bytes, activations);
        low = hn::Add(low, pair_sums(hn::LowerHalf(signed_weights), hn::LowerHalf(values)));
        high = hn::Add(high, pair_sums(hn::UpperHalf(half, signed_weights), hn::UpperHalf(half, values)));
    }
    [[nodiscard]] HWY_INLINE IntVector total(const std::int32_t* offset) const {
        const Ints ints;
        const IntVector sums = hn::Add(hn::ConcatEven(ints, high, low), hn::ConcatOdd(ints, high, low));
        return format == Format::q4_0 ? hn::Add(sums, hn::Set(ints, *offset)) : sums;
    }

private:
    template <class Half>
    static HWY_INLINE IntVector pair_sums(Half x, Half y) {
        const Shorts shorts;
        const IntVector pairs = hn::BitCast(Ints(), hn::Mul(hn::PromoteTo(shorts, x), hn::PromoteTo(shorts, y)));
        return hn::Add(hn::ShiftRight<16>(hn::ShiftLeft<16>(pairs)), hn::ShiftRight<16>(pairs));
    }
};

#endif

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

// One row of activations through one panel, in the order of memory: one long run of bytes is read at least as fast as
// several.
template <Format format>
HWY_NOINLINE void quantized_row(const PanelJob& job, std::size_t panel) {
    const Floats floats;
    const Matrix& matrix = job.matrix;
    const std::size_t group_bytes = panel_bytes(format, scale_columns);
    const std::byte* group = matrix.packed + panel * panel_bytes(format, matrix.columns);
    for (std::size_t first = 0; first < matrix.columns; first += job.block_columns) {
        const std::size_t groups = std::min(job.block_columns, matrix.columns - first) / scale_columns;
        const QuantizedAt at = QuantizedAt::of<format>(*job.activations, 0, first);
        Sums<1, panel_vectors> sums;
        for (std::size_t i = 0; i < groups; ++i, group += group_bytes) {
            fetch_ahead(group, group_bytes);
            const FloatVector scale = hn::Set(floats, at.scales[i]);
            Exact<format> exact[panel_vectors];
            HWY_UNROLL(8)
            for (std::size_t j = 0; j < panel_vectors; ++j) exact[j].start(at.offsets + i);
            HWY_UNROLL(8)
            for (std::size_t k = 0; k < 8; ++k) {
                const IntVector activations = four_columns(at.bytes + i * scale_columns + 4 * k);
                HWY_UNROLL(8)
                for (std::size_t j = 0; j < panel_vectors; ++j)
                    exact[j].add(load_columns<format>(group, j, k), activations);
            }
            HWY_UNROLL(8)
            for (std::size_t j = 0; j < panel_vectors; ++j) {
                const FloatVector scales = hn::Mul(load_f16(group + j * lanes * 2), scale);
                const FloatVector totals = hn::ConvertTo(floats, exact[j].total(at.offsets + i));
                sums.vectors[j] = hn::MulAdd(totals, scales, sums.vectors[j]);
            }
        }
        sums.finish(job, {first == 0, 0, panel * panel_rows});
    }
}

// `tokens` rows of activations through one panel.
template <Format format, std::size_t tokens>
HWY_NOINLINE void quantized_tile(const PanelJob& job, std::size_t panel, std::size_t first_token) {
    constexpr std::size_t vectors = 2;
    const Floats floats;
    const Matrix& matrix = job.matrix;
    const std::size_t group_bytes = panel_bytes(format, scale_columns);
    for (std::size_t vector = 0; vector < panel_vectors; vector += vectors) {
        const bool fetch = vector == 0 && first_token == 0 && job.activations->rows() < many_tokens;
        const std::byte* group = matrix.packed + panel * panel_bytes(format, matrix.columns);
        for (std::size_t first = 0; first < matrix.columns; first += job.block_columns) {
            const std::size_t groups = std::min(job.block_columns, matrix.columns - first) / scale_columns;
            const QuantizedAt at = QuantizedAt::of<format>(*job.activations, first_token, first);
            Sums<tokens, vectors> sums;
            for (std::size_t i = 0; i < groups; ++i, group += group_bytes) {
                if (fetch) fetch_ahead(group, group_bytes);
                Exact<format> exact[tokens * vectors];
                HWY_UNROLL(24)
                for (std::size_t j = 0; j < tokens * vectors; ++j)
                    exact[j].start(at.offsets + j / vectors * block_scales + i);
                HWY_UNROLL(8)
                for (std::size_t k = 0; k < 8; ++k) {
                    ByteVector weights[vectors];
                    HWY_UNROLL(2)
                    for (std::size_t j = 0; j < vectors; ++j) weights[j] = load_columns<format>(group, vector + j, k);
                    HWY_UNROLL(12)
                    for (std::size_t token = 0; token < tokens; ++token) {
                        const std::int8_t* bytes = at.bytes + token * activation_columns + i * scale_columns;
                        const IntVector activations = four_columns(bytes + 4 * k);
                        HWY_UNROLL(2)
                        for (std::size_t j = 0; j < vectors; ++j)
                            exact[token * vectors + j].add(weights[j], activations);
                    }
                }
                HWY_UNROLL(24)
                for (std::size_t j = 0; j < tokens * vectors; ++j) {
                    const std::size_t scale = j / vectors * block_scales + i;
                    const FloatVector weight_scales = load_f16(group + (vector + j % vectors) * lanes * 2);
                    const FloatVector scales = hn::Mul(weight_scales, hn::Set(floats, at.scales[scale]));
                    const FloatVector totals = hn::ConvertTo(floats, exact[j].total(at.offsets + scale));
                    sums.vectors[j] = hn::MulAdd(totals, scales, sums.vectors[j]);
                }
            }
            sums.finish(job, {first == 0, first_token, panel * panel_rows + vector * lanes});
        }
    }
}

#if HWY_TARGET == HWY_AVX3_DL

// 32 rows of weights in a block of columns.
struct TileBlock {
    std::size_t first;   // column
    std::size_t groups;  // of 32 columns
    const std::byte* weights;
    std::size_t group_bytes;
    alignas(64) std::array<float, block_scales * panel_rows> scales;
    alignas(64) std::array<std::uint8_t, activation_columns * panel_rows> unpacked;

    template <Format format>
    void read(const std::byte* packed) {
        const std::size_t packed_bytes = panel_bytes(format, scale_columns);
        for (std::size_t i = 0; i < groups; ++i)
            for (std::size_t j = 0; j < panel_rows; j += lanes)
                hn::Store(load_f16(packed + i * packed_bytes + 2 * j), Floats(), scales.data() + i * panel_rows + j);
        weights = packed + panel_scale_bytes;
        group_bytes = packed_bytes;
        if constexpr (format == Format::q4_0) {
            const Bytes bytes;
            for (std::size_t i = 0; i < groups; ++i)
                for (std::size_t j = 0; j < panel_vectors; ++j)
                    for (std::size_t k = 0; k < 8; ++k) {
                        const ByteVector values = load_columns<format>(packed + i * packed_bytes, j, k);
                        hn::Store(hn::Sub(values, hn::Set(bytes, 8)), bytes,
                                  unpacked.data() + ((i * 8 + k) * panel_vectors + j) * lanes * 4);
                    }
            weights = reinterpret_cast<const std::byte*>(unpacked.data());
            group_bytes = scale_columns * panel_rows;
        }
    }
};

// 16 rows of activations through a block.
HWY_NOINLINE void tiled_block(const PanelJob& job, const TileBlock& block, const NextWeights& next_weights,
                              std::size_t first_token, const Target& target) {
    const Floats floats;
    constexpr std::size_t half = tile_tokens * tile_lanes;
    alignas(64) std::array<std::int32_t, block_scales * 2 * half> exact;
    const std::size_t at = block.first / activation_columns;
    const std::size_t within = block.first % activation_columns;
    const std::int8_t* bytes = job.activations->bytes(at, first_token) + within;
    const float* scales = job.activations->scales(at, first_token) + within / scale_columns;
    for (std::size_t i = 0; i < block.groups; ++i) {
        next_weights.fetch(i, block.groups);
        // The next rows of activations lie behind these.
        constexpr std::size_t share = tile_tokens * activation_columns / block_scales;
        const std::int8_t* next = bytes + tile_tokens * activation_columns + i * share;
        for (std::size_t line = 0; line < share; line += line_bytes) __builtin_prefetch(next + line);
        tile_products(bytes + i * scale_columns, block.weights + i * block.group_bytes, exact.data() + 2 * half * i);
    }
    for (std::size_t vector = 0; vector < panel_vectors; ++vector) {
        Sums<tile_tokens, 1> sums;
        for (std::size_t i = 0; i < block.groups; ++i) {
            const FloatVector weight_scales = hn::Load(floats, block.scales.data() + i * panel_rows + vector * lanes);
            const std::int32_t* from = exact.data() + (2 * i + vector) * half;
            HWY_UNROLL(16)
            for (std::size_t token = 0; token < tile_tokens; ++token) {
                const FloatVector factor = hn::Mul(weight_scales, hn::Set(floats, scales[token * block_scales + i]));
                const FloatVector totals = hn::ConvertTo(floats, hn::Load(Ints(), from + token * tile_lanes));
                sums.vectors[token] = hn::MulAdd(totals, factor, sums.vectors[token]);
            }
        }
        sums.finish(job, {target.first_block, target.token, target.row + vector * lanes});
    }
}

// What rows of activations add up to in a panel, kept together until all columns are done: where results lie far apart,
// they are in each other's way in the caches.
struct NearResults {
    static constexpr std::size_t tokens = 128;
    alignas(64) std::array<float, tokens * panel_rows> floats;
    alignas(64) std::array<std::int64_t, tokens * panel_rows> fixed;

    // As if the panel were all there is.
    PanelJob job_like(const PanelJob& job) {
        PanelJob result = job;
        result.matrix.rows = panel_rows;
        result.stride = panel_rows;
        result.results = job.results != nullptr ? floats.data() : nullptr;
        result.sums = fixed.data();
        if (job.results == nullptr) fixed.fill(0);
        return result;
    }

    // 16 rows of activations to where they belong.
    void move(const PanelJob& job, std::size_t panel, std::size_t near_token, std::size_t token) const {
        const std::size_t rows = std::min(panel_rows, job.matrix.rows - panel * panel_rows);
        for (std::size_t i = 0; i < tile_tokens; ++i) {
            const std::size_t from = (near_token + i) * panel_rows;
            const std::size_t to = (token + i) * job.stride + panel * panel_rows;
            if (job.results == nullptr) {
                for (std::size_t row = 0; row < rows; ++row) job.sums[to + row] += fixed[from + row];
            } else if (rows == panel_rows) {
                hwy::CopyBytes<panel_rows * sizeof(float)>(floats.data() + from, job.results + to);
            } else {
                std::copy_n(floats.data() + from, rows, job.results + to);
            }
        }
    }
};

// As many rows of activations through a panel as tiles take whole; says how many.
template <Format format>
HWY_NOINLINE std::size_t multiply_by_tiles(const PanelJob& job, std::size_t panel) {
    const Matrix& matrix = job.matrix;
    const std::size_t tokens = job.activations->rows() / tile_tokens * tile_tokens;
    NearResults near;
    TileBlock block;
    for (std::size_t begin = 0; begin < tokens; begin += NearResults::tokens) {
        const std::size_t count = std::min(NearResults::tokens, tokens - begin);
        const PanelJob near_job = near.job_like(job);
        const std::byte* packed = matrix.packed + panel * panel_bytes(format, matrix.columns);
        for (std::size_t first = 0; first < matrix.columns; first += job.block_columns) {
            const std::size_t columns = std::min(job.block_columns, matrix.columns - first);
            block.first = first;
            block.groups = columns / scale_columns;
            block.read<format>(packed);
            const std::size_t bytes = panel_bytes(format, columns);
            packed += bytes;
            for (std::size_t token = 0; token < count; token += tile_tokens) {
                const NextWeights next = NextWeights::share(job, packed, bytes, begin + token, tile_tokens);
                tiled_block(near_job, block, next, begin + token, {first == 0, token, 0});
                if (first + columns == matrix.columns) near.move(job, panel, token, begin + token);
            }
        }
    }
    return tokens;
}

#endif

// Multiply-adds of a matrix. The tile unit sleeps while nobody uses it and wakes slowly: what vectors do in less than
// half a millisecond is left to them.
constexpr std::size_t worth_waking = std::size_t{1} << 26;

template <Format format>
void multiply_quantized(const PanelJob& job) {
    const std::size_t bytes = panel_bytes(format, job.matrix.columns);
#if HWY_TARGET == HWY_AVX3_DL
    std::optional<Tiles> tiles;
    const std::size_t work = job.matrix.rows * job.matrix.columns * job.activations->rows();
    if (job.activations->rows() >= tile_tokens && work >= worth_waking && tiles_available()) tiles.emplace();
#endif
    for (std::size_t panel = job.first_panel; panel < job.last_panel; ++panel) {
        if (job.activations->rows() == 1) {
            quantized_row<format>(job, panel);
            continue;
        }
        std::size_t token = 0;
#if HWY_TARGET == HWY_AVX3_DL
        if (tiles) token = multiply_by_tiles<format>(job, panel);
#endif
        const auto take = [&]<std::size_t tokens>(std::integral_constant<std::size_t, tokens>) {
            for (; token + tokens <= job.activations->rows(); token += tokens) {
                NextWeights::share(job, job.matrix.packed + (panel + 1) * bytes, bytes, token, tokens).fetch(0, 1);
                quantized_tile<format, tokens>(job, panel, token);
            }
        };
        // As many as there are registers for their sums.
        if constexpr (lanes == 16) take(std::integral_constant<std::size_t, 6>());
        take(std::integral_constant<std::size_t, 4>());
        take(std::integral_constant<std::size_t, 2>());
        take(std::integral_constant<std::size_t, 1>());
    }
}

void multiply_quantized_panels(const PanelJob& job) {
    switch (job.matrix.format) {
        case Format::q8_0:
            return multiply_quantized<Format::q8_0>(job);
        case Format::q4_0:
            return multiply_quantized<Format::q4_0>(job);
        default:
            CHAOS_ASSERT(false);
    }
}

#endif

}  // namespace chaos::infer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace chaos::infer {

HWY_EXPORT(multiply_quantized_panels);

void multiply_quantized_panels(const PanelJob& job) {
    HWY_DYNAMIC_DISPATCH(multiply_quantized_panels)(job);
}

}  // namespace chaos::infer

#endif
