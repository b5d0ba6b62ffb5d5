// What lies between products, for the instruction sets of the machine.
#include "infer/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infer/elementwise_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/half.h"
#include "infer/elementwise.h"
#include "infer/fetch_ahead.h"
#include "infer/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace chaos::infer::HWY_NAMESPACE {

#if !HWY_NATIVE_FMA

Quantized quantize_columns(const float* values, std::int8_t* bytes) {
    return portable::quantize_columns(values, bytes);
}

void rms_norm(const float* values, const float* weights, std::size_t count, float epsilon, float* out) {
    portable::rms_norm(values, weights, count, epsilon, out);
}

void silu_times(const float* gate, const float* up, std::size_t count, float* out) {
    portable::silu_times(gate, up, count, out);
}

void softmax(float* values, std::size_t count) {
    portable::softmax(values, count);
}

void attend_halves(const AttentionJob<std::uint16_t>& job) {
    portable::attend(job);
}

void attend_floats(const AttentionJob<float>& job) {
    portable::attend(job);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using FloatVector = hn::Vec<Floats>;
using IntVector = hn::Vec<Ints>;

constexpr std::size_t lanes = hn::MaxLanes(Floats());
constexpr std::size_t parts = 16;  // of a sum over elements
static_assert(key_group == parts);

// A sum over elements, in 16 parts.
struct Parts {
    FloatVector vectors[parts / lanes];

    HWY_INLINE Parts() {
        HWY_UNROLL(4)
        for (std::size_t i = 0; i < parts / lanes; ++i) vectors[i] = hn::Zero(Floats());
    }

    HWY_INLINE float total() const {
        alignas(64) std::array<float, parts> values;
        HWY_UNROLL(4)
        for (std::size_t i = 0; i < parts / lanes; ++i) hn::Store(vectors[i], Floats(), values.data() + i * lanes);
        for (std::size_t half = parts / 2; half > 0; half /= 2)
            for (std::size_t i = 0; i < half; ++i) values[i] += values[i + half];
        return values[0];
    }
};

// Calls work(part, vector) for all elements, 16 at a time; behind the last one are zeros, which change no sum.
template <class Work>
HWY_INLINE void for_parts(const float* values, std::size_t count, const Work& work) {
    std::size_t i = 0;
    for (; i + parts <= count; i += parts)
        for (std::size_t j = 0; j < parts / lanes; ++j) work(j, hn::LoadU(Floats(), values + i + j * lanes));
    if (i == count) return;
    alignas(64) std::array<float, parts> rest{};
    std::copy(values + i, values + count, rest.begin());
    for (std::size_t j = 0; j < parts / lanes; ++j) work(j, hn::Load(Floats(), rest.data() + j * lanes));
}

// The same operations as exponential()'s.
HWY_INLINE FloatVector exponentials(FloatVector values) {
    const Floats floats;
    const Ints ints;
    const auto least = hn::Set(floats, -87.3F);
    const auto most = hn::Set(floats, 88.3F);
    const auto above = hn::IfThenElse(hn::Gt(values, least), values, least);
    const auto within = hn::IfThenElse(hn::Lt(above, most), above, most);
    const auto n = hn::Round(hn::Mul(within, hn::Set(floats, 0x1.715476p0F)));
    const auto high = hn::MulAdd(n, hn::Set(floats, -0x1.62e4p-1F), within);
    const auto r = hn::MulAdd(n, hn::Set(floats, -0x1.7f7d1cp-20F), high);
    auto sum = hn::Set(floats, 1.0F / 5040.0F);
    for (const float term : {1.0F / 720.0F, 1.0F / 120.0F, 1.0F / 24.0F, 1.0F / 6.0F, 0.5F, 1.0F, 1.0F})
        sum = hn::MulAdd(sum, r, hn::Set(floats, term));
    const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(ints, n), hn::Set(ints, 127)));
    const auto result = hn::Mul(sum, hn::BitCast(floats, exponent));
    const auto infinity = hn::Set(floats, std::numeric_limits<float>::infinity());
    const auto not_small = hn::IfThenElse(hn::Lt(values, least), hn::Zero(floats), result);
    const auto not_large = hn::IfThenElse(hn::Gt(values, most), infinity, not_small);
    return hn::IfThenElse(hn::IsNaN(values), values, not_large);
}

Quantized quantize_columns(const float* values, std::int8_t* bytes) {
    const Floats floats;
    const Ints ints;
    // Magnitudes of floats are in the order of their bits; those of infinity and beyond are the greatest.
    auto magnitudes = hn::Zero(ints);
    for (std::size_t i = 0; i < scale_columns; i += lanes)
        magnitudes = hn::Max(magnitudes, hn::BitCast(ints, hn::Abs(hn::LoadU(floats, values + i))));
    const float greatest = hn::GetLane(hn::BitCast(floats, hn::MaxOfLanes(ints, magnitudes)));
    const bool finite = std::isfinite(greatest);
    if (!finite || greatest < 1e-30F) {
        std::fill_n(bytes, scale_columns, std::int8_t{0});
        return {.scale = finite ? 0.0F : std::numeric_limits<float>::quiet_NaN(), .sum = 0};
    }
    const FloatVector factor = hn::Set(floats, 127.0F / greatest);
    const hn::Rebind<std::int8_t, Ints> to;
    auto sum = hn::Zero(ints);
    for (std::size_t i = 0; i < scale_columns; i += lanes) {
        const IntVector rounded = hn::NearestInt(hn::Mul(hn::LoadU(floats, values + i), factor));
        sum = hn::Add(sum, rounded);
        hn::StoreU(hn::DemoteTo(to, rounded), to, bytes + i);
    }
    return {.scale = greatest / 127.0F, .sum = hn::GetLane(hn::SumOfLanes(ints, sum))};
}

void rms_norm(const float* values, const float* weights, std::size_t count, float epsilon, float* out) {
    const Floats floats;
    Parts squares;
    for_parts(values, count, [&](std::size_t part, FloatVector x) HWY_ATTR {
        squares.vectors[part] = hn::MulAdd(x, x, squares.vectors[part]);
    });
    const float factor = 1.0F / std::sqrt(squares.total() / static_cast<float>(count) + epsilon);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const FloatVector scaled = hn::Mul(hn::LoadU(floats, values + i), hn::Set(floats, factor));
        hn::StoreU(hn::Mul(scaled, hn::LoadU(floats, weights + i)), floats, out + i);
    }
    for (; i < count; ++i) out[i] = values[i] * factor * weights[i];
}

void silu_times(const float* gate, const float* up, std::size_t count, float* out) {
    const Floats floats;
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const FloatVector g = hn::LoadU(floats, gate + i);
        const FloatVector silu = hn::Div(g, hn::Add(hn::Set(floats, 1.0F), exponentials(hn::Neg(g))));
        hn::StoreU(hn::Mul(silu, hn::LoadU(floats, up + i)), floats, out + i);
    }
    for (; i < count; ++i) out[i] = gate[i] / (1.0F + exponential(-gate[i])) * up[i];
}

void softmax(float* values, std::size_t count) {
    const Floats floats;
    float greatest = -std::numeric_limits<float>::infinity();
    FloatVector most = hn::Set(floats, greatest);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const FloatVector x = hn::LoadU(floats, values + i);
        most = hn::IfThenElse(hn::Gt(x, most), x, most);
    }
    greatest = hn::GetLane(hn::MaxOfLanes(floats, most));
    for (; i < count; ++i) greatest = values[i] > greatest ? values[i] : greatest;
    const auto exponentials_of = [&](float* some) HWY_ATTR {
        hn::StoreU(exponentials(hn::Sub(hn::LoadU(floats, some), hn::Set(floats, greatest))), floats, some);
    };
    for (i = 0; i + lanes <= count; i += lanes) exponentials_of(values + i);
    if (i < count) {
        alignas(64) std::array<float, lanes> rest{};
        std::copy(values + i, values + count, rest.begin());
        exponentials_of(rest.data());
        std::copy_n(rest.begin(), count - i, values + i);
    }
    Parts sum;
    for_parts(values, count,
              [&](std::size_t part, FloatVector x) HWY_ATTR { sum.vectors[part] = hn::Add(sum.vectors[part], x); });
    const float factor = 1.0F / sum.total();
    for (i = 0; i + lanes <= count; i += lanes)
        hn::StoreU(hn::Mul(hn::LoadU(floats, values + i), hn::Set(floats, factor)), floats, values + i);
    for (; i < count; ++i) values[i] *= factor;
}

HWY_INLINE FloatVector load_numbers(const std::uint16_t* from) {
    const hn::Rebind<hwy::float16_t, Floats> halves;
    return hn::PromoteTo(Floats(), hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
}
HWY_INLINE FloatVector load_numbers(const float* from) {
    return hn::LoadU(Floats(), from);
}

template <class Number>
constexpr std::size_t line_numbers = line_bytes / sizeof(Number);

// Scores of `queries` queries for groups of 16 positions: lanes are positions.
template <std::size_t queries, std::size_t groups, class Number>
HWY_INLINE void score_groups(const AttentionJob<Number>& job, std::size_t first_query, std::size_t group,
                             std::size_t stride) {
    constexpr std::size_t group_vectors = key_group / lanes;
    constexpr std::size_t vectors = groups * group_vectors;
    const Floats floats;
    const std::size_t dimensions = job.head.dimensions;
    const Number* keys = job.head.keys + group * key_group * dimensions;
    const float* values = job.queries + first_query * dimensions;
    FloatVector scores[queries * vectors];
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < queries * vectors; ++i) scores[i] = hn::Zero(floats);
    for (std::size_t i = 0; i < dimensions; ++i) {
        HWY_UNROLL(4)
        for (std::size_t j = 0; j < vectors; ++j) {
            const Number* from = keys + (j / group_vectors * dimensions + i) * key_group + j % group_vectors * lanes;
            if (j % group_vectors == 0 && i * key_group % line_numbers<Number> == 0) fetch_ahead(from, line_bytes);
            const FloatVector key = load_numbers(from);
            HWY_UNROLL(8)
            for (std::size_t query = 0; query < queries; ++query) {
                FloatVector& score = scores[query * vectors + j];
                score = hn::MulAdd(key, hn::Set(floats, values[query * dimensions + i]), score);
            }
        }
    }
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < queries * vectors; ++i) {
        float* to = job.scores + (first_query + i / vectors) * stride + group * key_group + i % vectors * lanes;
        hn::StoreU(hn::Mul(scores[i], hn::Set(floats, job.scale)), floats, to);
    }
}

// Values weighted by scores, for `vectors` vectors of dimensions: lanes are dimensions.
template <std::size_t queries, std::size_t vectors, class Number>
HWY_INLINE void weigh_values(const AttentionJob<Number>& job, std::size_t first_query, std::size_t dimension,
                             std::size_t stride) {
    const Floats floats;
    const std::size_t dimensions = job.head.dimensions;
    const Number* from = job.head.values + dimension;
    const float* scores = job.scores + first_query * stride;
    FloatVector sums[queries * vectors];
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < queries * vectors; ++i) sums[i] = hn::Zero(floats);
    for (std::size_t position = 0; position < job.positions; ++position, from += dimensions) {
        FloatVector values[vectors];
        HWY_UNROLL(4)
        for (std::size_t j = 0; j < vectors; ++j) {
            if (j * lanes % line_numbers<Number> == 0) fetch_ahead(from + j * lanes, line_bytes);
            values[j] = load_numbers(from + j * lanes);
        }
        HWY_UNROLL(8)
        for (std::size_t query = 0; query < queries; ++query) {
            const FloatVector score = hn::Set(floats, scores[query * stride + position]);
            HWY_UNROLL(4)
            for (std::size_t j = 0; j < vectors; ++j) {
                FloatVector& sum = sums[query * vectors + j];
                sum = hn::MulAdd(values[j], score, sum);
            }
        }
    }
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < queries * vectors; ++i) {
        float* to = job.out + (first_query + i / vectors) * dimensions + dimension + i % vectors * lanes;
        hn::StoreU(sums[i], floats, to);
    }
}

// Keys and values are read once for `queries` queries.
template <std::size_t queries, class Number>
HWY_NOINLINE void attend_queries(const AttentionJob<Number>& job, std::size_t first) {
    const std::size_t dimensions = job.head.dimensions;
    const std::size_t stride = key_numbers(job.positions, 1);
    // Two groups at a time, where there are registers for their sums: they do not wait for each other.
    std::size_t group = 0;
    if constexpr (lanes == key_group)
        for (; group + 2 <= stride / key_group; group += 2) score_groups<queries, 2>(job, first, group, stride);
    for (; group < stride / key_group; ++group) score_groups<queries, 1>(job, first, group, stride);
    for (std::size_t i = 0; i < queries; ++i) softmax(job.scores + (first + i) * stride, job.positions);
    constexpr std::size_t vectors = lanes == 8 ? 2 : 4;
    std::size_t dimension = 0;
    for (; dimension + vectors * lanes <= dimensions; dimension += vectors * lanes)
        weigh_values<queries, vectors>(job, first, dimension, stride);
    for (; dimension + lanes <= dimensions; dimension += lanes) weigh_values<queries, 1>(job, first, dimension, stride);
    for (; dimension < dimensions; ++dimension) {
        for (std::size_t query = first; query < first + queries; ++query) {
            float sum = 0.0F;
            for (std::size_t position = 0; position < job.positions; ++position) {
                const float value = as_float(job.head.values[position * dimensions + dimension]);
                sum = std::fma(value, job.scores[query * stride + position], sum);
            }
            job.out[query * dimensions + dimension] = sum;
        }
    }
}

template <class Number>
HWY_INLINE void attend_to(const AttentionJob<Number>& job) {
    std::size_t query = 0;
    for (; query + 4 <= job.query_count; query += 4) attend_queries<4>(job, query);
    for (; query + 2 <= job.query_count; query += 2) attend_queries<2>(job, query);
    for (; query < job.query_count; ++query) attend_queries<1>(job, query);
}

void attend_halves(const AttentionJob<std::uint16_t>& job) {
    attend_to(job);
}

void attend_floats(const AttentionJob<float>& job) {
    attend_to(job);
}

#endif

}  // namespace chaos::infer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace chaos::infer {

HWY_EXPORT(quantize_columns);
HWY_EXPORT(rms_norm);
HWY_EXPORT(silu_times);
HWY_EXPORT(softmax);
HWY_EXPORT(attend_halves);
HWY_EXPORT(attend_floats);

Quantized quantize_columns(const float* values, std::int8_t* bytes) {
    return HWY_DYNAMIC_DISPATCH(quantize_columns)(values, bytes);
}

void rms_norm(const float* values, const float* weights, std::size_t count, float epsilon, float* out) {
    HWY_DYNAMIC_DISPATCH(rms_norm)(values, weights, count, epsilon, out);
}

void silu_times(const float* gate, const float* up, std::size_t count, float* out) {
    HWY_DYNAMIC_DISPATCH(silu_times)(gate, up, count, out);
}

void softmax(float* values, std::size_t count) {
    HWY_DYNAMIC_DISPATCH(softmax)(values, count);
}

void attend(const AttentionJob<std::uint16_t>& job) {
    HWY_DYNAMIC_DISPATCH(attend_halves)(job);
}

void attend(const AttentionJob<float>& job) {
    HWY_DYNAMIC_DISPATCH(attend_floats)(job);
}

std::vector<std::int64_t> compiled_targets() {
    return hwy::SupportedAndGeneratedTargets();
}

}  // namespace chaos::infer

#endif
