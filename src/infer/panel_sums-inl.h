// What all kernels of multiply_panels() share, for one instruction set: where sums go that are taken over a block of
// columns, and how what is read later is asked for in time. Lanes are rows of weights. Included once for every
// instruction set, as Highway has it.
#include "infer/targets.h"

#include <hwy/highway.h>

#include "infer/fetch_ahead.h"
#include "infer/kernels.h"
#include "infer/multiply.h"

#include <algorithm>
#include <array>

#if defined(CHAOS_INFER_PANEL_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CHAOS_INFER_PANEL_SUMS_INL_H
#undef CHAOS_INFER_PANEL_SUMS_INL_H
#else
#define CHAOS_INFER_PANEL_SUMS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace chaos::infer::HWY_NAMESPACE {

#if HWY_NATIVE_FMA

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVector = hn::Vec<Floats>;

constexpr std::size_t lanes = hn::MaxLanes(Floats());
constexpr std::size_t panel_vectors = panel_rows / lanes;

// Where sums of a block of columns belong: they begin with this row of activations and this row of weights.
struct Target {
    bool first_block;
    std::size_t token;
    std::size_t row;
};

HWY_INLINE void add_floats(FloatVector sum, bool first_block, float* to) {
    const Floats floats;
    hn::StoreU(hn::Add(first_block ? hn::Zero(floats) : hn::LoadU(floats, to), sum), floats, to);
}

// The same operations as to_fixed()'s: multiplying by a power of two is exact, so that it may be fused with the sum.
HWY_INLINE void add_fixed(FloatVector sum, std::int64_t* to) {
    const Floats floats;
    const hn::Repartition<double, Floats> doubles;
    const hn::RebindToSigned<decltype(doubles)> longs;
    const FloatVector limited =
        hn::IfThenElse(hn::Le(hn::Abs(sum), hn::Set(floats, fixed_limit)), sum, hn::Set(floats, made_fixed_beyond));
    const auto ones = hn::Set(doubles, 0x1.8p52);
    const auto add_half = [&](auto half, std::int64_t* here) HWY_ATTR {
        const auto scaled = hn::MulAdd(hn::PromoteTo(doubles, half), hn::Set(doubles, fixed_unit), ones);
        const auto rounded = hn::Sub(hn::BitCast(longs, scaled), hn::BitCast(longs, ones));
        hn::StoreU(hn::Add(hn::LoadU(longs, here), rounded), longs, here);
    };
    add_half(hn::LowerHalf(limited), to);
    add_half(hn::UpperHalf(hn::Half<Floats>(), limited), to + lanes / 2);
}

// Of a last panel that has fewer rows. The sums lie token by token.
inline HWY_NOINLINE void finish_some_rows(const PanelJob& job, const Target& target, std::size_t tokens,
                                          std::size_t stride, const float* sums) {
    const std::size_t rows = job.matrix.rows - std::min(target.row, job.matrix.rows);
    for (std::size_t token = 0; token < tokens; ++token, sums += stride) {
        const std::size_t at = (target.token + token) * job.stride + target.row;
        for (std::size_t i = 0; i < std::min(rows, stride); ++i) {
            if (job.results != nullptr) {
                job.results[at + i] = (target.first_block ? 0.0F : job.results[at + i]) + sums[i];
            } else {
                job.sums[at + i] += to_fixed(sums[i]);
            }
        }
    }
}

// Sums of a block of columns, to be finished: some vectors for each row of activations.
template <std::size_t tokens, std::size_t token_vectors>
struct Sums {
    static constexpr std::size_t count = tokens * token_vectors;
    FloatVector vectors[count];

    HWY_INLINE Sums() {
        HWY_UNROLL(32)
        for (std::size_t i = 0; i < count; ++i) vectors[i] = hn::Zero(Floats());
    }

    // Adds them to the results.
    HWY_INLINE void finish(const PanelJob& job, const Target& target) const {
        if (target.row + token_vectors * lanes > job.matrix.rows) {
            alignas(64) std::array<float, count * lanes> values;
            HWY_UNROLL(32)
            for (std::size_t i = 0; i < count; ++i) hn::Store(vectors[i], Floats(), values.data() + i * lanes);
            return finish_some_rows(job, target, tokens, token_vectors * lanes, values.data());
        }
        const std::size_t at = target.token * job.stride + target.row;
        const auto offset = [&](std::size_t i)
                                HWY_ATTR { return at + i / token_vectors * job.stride + i % token_vectors * lanes; };
        if (job.results != nullptr) {
            HWY_UNROLL(32)
            for (std::size_t i = 0; i < count; ++i) add_floats(vectors[i], target.first_block, job.results + offset(i));
        } else {
            HWY_UNROLL(32)
            for (std::size_t i = 0; i < count; ++i) add_fixed(vectors[i], job.sums + offset(i));
        }
    }
};

HWY_INLINE FloatVector load_f16(const std::byte* from) {
    const hn::Rebind<hwy::float16_t, Floats> halves;
    return hn::PromoteTo(Floats(), hn::Load(halves, reinterpret_cast<const hwy::float16_t*>(from)));
}

// With fewer tokens than this, weights are fetched ahead while the first ones are multiplied; with more, NextWeights
// has the time.
constexpr std::size_t many_tokens = 24;

// Weights that come next, to be fetched while some tokens of many are multiplied by what is there: of so many bytes as
// large a share as the tokens are of all.
struct NextWeights {
    const std::byte* at;
    std::size_t lines;

    static HWY_INLINE NextWeights share(const PanelJob& job, const std::byte* next, std::size_t bytes,
                                        std::size_t token, std::size_t tokens) {
        const std::size_t rows = job.activations->rows();
        if (rows < many_tokens) return {next, 0};
        const std::size_t first = bytes * token / rows / line_bytes;
        return {next + first * line_bytes, bytes * (token + tokens) / rows / line_bytes - first};
    }

    // One of `parts` parts of it: many at once would wait for each other.
    HWY_INLINE void fetch(std::size_t part, std::size_t parts) const {
        for (std::size_t line = lines * part / parts; line < lines * (part + 1) / parts; ++line)
            __builtin_prefetch(at + line * line_bytes, 0, second_cache);
    }
};

#endif

}  // namespace chaos::infer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
