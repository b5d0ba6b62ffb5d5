#include "compute/torch/attention.h"

#include "compute/torch/gemm.h"
#include "compute/torch/simd.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace chaos::compute {
namespace {

constexpr std::int64_t block_rows = 64;

// Softmax of values[0, n) scaled by `scale`; what lies behind n is masked out. Returns log(sum(exp(scale * value))).
CHAOS_SIMD float masked_softmax_row(std::int64_t n, std::int64_t width, float scale, float* __restrict values) {
    const float largest = largest_of(values, n);
    const float sum = exponentiate(values, n, largest, scale);
    const float inverse = 1.0F / sum;
    for (std::int64_t j = 0; j < n; ++j) values[j] *= inverse;
    for (std::int64_t j = n; j < width; ++j) values[j] = 0.0F;
    return std::log(sum) + largest * scale;
}

// From raw scores and the gradient of the probabilities: `scores` become probabilities, `gradient` becomes the
// gradient of the raw scores.
CHAOS_SIMD void softmax_backward_row(std::int64_t n, std::int64_t width, float scale, float log_sum, float inner,
                                     float* __restrict scores, float* __restrict gradient) {
    for (std::int64_t i = 0; i < n; ++i) {
        scores[i] = exponential(scores[i] * scale - log_sum);
        gradient[i] = scores[i] * (gradient[i] - inner) * scale;
    }
    for (std::int64_t i = n; i < width; ++i) {
        scores[i] = 0.0F;
        gradient[i] = 0.0F;
    }
}

CHAOS_SIMD float dot_row(std::int64_t n, const float* a, const float* b) {
    return dot(a, b, n);
}

}  // namespace

void attention(const AttentionShape& shape, const float* qkv, float* out, float* log_sums) {
    const std::int64_t stride = shape.qkv_width();
    const std::int64_t out_stride = shape.out_width();
    const std::int64_t width = shape.head_width;
    const std::int64_t group = shape.heads / shape.kv_heads;
    const float scale = 1.0F / std::sqrt(static_cast<float>(width));
#pragma omp parallel
    {
        std::vector<float> scores(static_cast<std::size_t>(block_rows * shape.positions));
#pragma omp for schedule(dynamic)
        for (std::int64_t task = 0; task < shape.batch * shape.heads; ++task) {
            const std::int64_t sample = task / shape.heads;
            const std::int64_t head = task % shape.heads;
            const float* rows = qkv + sample * shape.positions * stride;
            const float* q = rows + head * width;
            const float* k = rows + (shape.heads + head / group) * width;
            const float* v = k + shape.kv_heads * width;
            float* o = out + sample * shape.positions * out_stride + head * width;
            for (std::int64_t begin = 0; begin < shape.positions; begin += block_rows) {
                const std::int64_t count = std::min(block_rows, shape.positions - begin);
                const std::int64_t keys = begin + count;
                gemm(count, keys, width, 1.0F, {q + begin * stride, stride}, {k, stride, true}, 0.0F, scores.data(),
                     keys);
                for (std::int64_t i = 0; i < count; ++i)
                    log_sums[task * shape.positions + begin + i] =
                        masked_softmax_row(begin + i + 1, keys, scale, scores.data() + i * keys);
                gemm(count, width, keys, 1.0F, {scores.data(), keys}, {v, stride}, 0.0F, o + begin * out_stride,
                     out_stride);
            }
        }
    }
}

void attention_backward(const AttentionShape& shape, const float* qkv, const float* out, const float* log_sums,
                        const float* gradient_out, float* gradient_qkv) {
    const std::int64_t stride = shape.qkv_width();
    const std::int64_t out_stride = shape.out_width();
    const std::int64_t width = shape.head_width;
    const std::int64_t group = shape.heads / shape.kv_heads;
    const float scale = 1.0F / std::sqrt(static_cast<float>(width));
#pragma omp parallel
    {
        const auto cells = static_cast<std::size_t>(block_rows * shape.positions);
        std::vector<float> scores(cells);
        std::vector<float> gradient(cells);
        // The heads of a group share a key and a value head: one task per group, so that no two tasks add to one place.
#pragma omp for schedule(dynamic)
        for (std::int64_t task = 0; task < shape.batch * shape.kv_heads; ++task) {
            const std::int64_t sample = task / shape.kv_heads;
            const std::int64_t kv_head = task % shape.kv_heads;
            const std::int64_t row = sample * shape.positions;
            const std::int64_t k_at = row * stride + (shape.heads + kv_head) * width;
            const std::int64_t v_at = k_at + shape.kv_heads * width;
            // Keys grow from block to block: the last block of the first head touches all of them, so it goes first
            // and overwrites; every other block adds.
            bool first = true;
            for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
                const std::int64_t q_at = row * stride + head * width;
                const std::int64_t o_at = row * out_stride + head * width;
                const std::int64_t last = (shape.positions - 1) / block_rows * block_rows;
                for (std::int64_t begin = last; begin >= 0; begin -= block_rows) {
                    const std::int64_t count = std::min(block_rows, shape.positions - begin);
                    const std::int64_t keys = begin + count;
                    const float* q = qkv + q_at + begin * stride;
                    const float* o = out + o_at + begin * out_stride;
                    const float* go = gradient_out + o_at + begin * out_stride;
                    gemm(count, keys, width, 1.0F, {q, stride}, {qkv + k_at, stride, true}, 0.0F, scores.data(), keys);
                    gemm(count, keys, width, 1.0F, {go, out_stride}, {qkv + v_at, stride, true}, 0.0F, gradient.data(),
                         keys);
                    const float* sums = log_sums + (sample * shape.heads + head) * shape.positions + begin;
                    for (std::int64_t i = 0; i < count; ++i) {
                        const float inner = dot_row(width, o + i * out_stride, go + i * out_stride);
                        softmax_backward_row(begin + i + 1, keys, scale, sums[i], inner, scores.data() + i * keys,
                                             gradient.data() + i * keys);
                    }
                    const float beta = first ? 0.0F : 1.0F;
                    first = false;
                    gemm(count, width, keys, 1.0F, {gradient.data(), keys}, {qkv + k_at, stride}, 0.0F,
                         gradient_qkv + q_at + begin * stride, stride);
                    gemm(keys, width, count, 1.0F, {gradient.data(), keys, true}, {q, stride}, beta,
                         gradient_qkv + k_at, stride);
                    gemm(keys, width, count, 1.0F, {scores.data(), keys, true}, {go, out_stride}, beta,
                         gradient_qkv + v_at, stride);
                }
            }
        }
    }
}

}  // namespace chaos::compute
