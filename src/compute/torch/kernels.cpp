#include "compute/torch/kernels.h"

#include "compute/torch/simd.h"

#include <omp.h>
#include <algorithm>
#include <cmath>

namespace chaos::compute {
namespace {

CHAOS_SIMD void rms_norm_row(std::int64_t width, float epsilon, float* __restrict x, const float* __restrict added,
                             const float* __restrict weight, float* __restrict normed, float* inverse_rms) {
    if (added != nullptr)
        for (std::int64_t i = 0; i < width; ++i) x[i] += added[i];
    const float mean_square = dot(x, x, width) / static_cast<float>(width);
    const float scale = 1.0F / std::sqrt(mean_square + epsilon);
    *inverse_rms = scale;
    for (std::int64_t i = 0; i < width; ++i) normed[i] = x[i] * scale * weight[i];
}

CHAOS_SIMD void rms_norm_backward_row(std::int64_t width, const float* __restrict x, const float* __restrict weight,
                                      float scale, const float* __restrict gradient_normed,
                                      float* __restrict gradient_x, float* __restrict weight_gradient) {
    float partial[lanes] = {};
    std::int64_t i = 0;
    for (; i + lanes <= width; i += lanes)
        for (std::int64_t lane = 0; lane < lanes; ++lane)
            partial[lane] += gradient_normed[i + lane] * weight[i + lane] * x[i + lane];
    float sum = sum_of(partial);
    for (; i < width; ++i) sum += gradient_normed[i] * weight[i] * x[i];
    const float pull = sum * scale * scale * scale / static_cast<float>(width);
    for (std::int64_t j = 0; j < width; ++j) {
        weight_gradient[j] += gradient_normed[j] * x[j] * scale;
        gradient_x[j] += gradient_normed[j] * weight[j] * scale - x[j] * pull;
    }
}

CHAOS_SIMD void swiglu_row(std::int64_t width, const float* __restrict gate, const float* __restrict up,
                           float* __restrict hidden) {
    for (std::int64_t i = 0; i < width; ++i) hidden[i] = gate[i] / (1.0F + exponential(-gate[i])) * up[i];
}

CHAOS_SIMD void swiglu_backward_row(std::int64_t width, float* __restrict gate, float* __restrict up,
                                    const float* __restrict gradient) {
    for (std::int64_t i = 0; i < width; ++i) {
        const float sigmoid = 1.0F / (1.0F + exponential(-gate[i]));
        const float silu = gate[i] * sigmoid;
        const float gradient_gate = gradient[i] * up[i] * (sigmoid + silu * (1.0F - sigmoid));
        up[i] = gradient[i] * silu;
        gate[i] = gradient_gate;
    }
}

CHAOS_SIMD void rope_head(std::int64_t half, const float* __restrict cosine, const float* __restrict sine,
                          float direction, float* __restrict low, float* __restrict high) {
    for (std::int64_t i = 0; i < half; ++i) {
        const float turn = direction * sine[i];
        const float a = low[i];
        const float b = high[i];
        low[i] = a * cosine[i] - b * turn;
        high[i] = b * cosine[i] + a * turn;
    }
}

// The row's largest value, and the sum of exponentials relative to it.
struct RowSoftmax {
    float largest;
    float sum;
};

// Logits become their exponentials.
CHAOS_SIMD RowSoftmax softmax_row(std::int64_t classes, float* __restrict logits) {
    const float largest = largest_of(logits, classes);
    return {largest, exponentiate(logits, classes, largest, 1.0F)};
}

CHAOS_SIMD void scale_row(std::int64_t n, float factor, float* __restrict x) {
    for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

CHAOS_SIMD void add_row(std::int64_t n, const float* __restrict from, float* __restrict to) {
    for (std::int64_t i = 0; i < n; ++i) to[i] += from[i];
}

}  // namespace

void rms_norm(std::int64_t rows, std::int64_t width, float epsilon, float* x, const float* added, const float* weight,
              float* normed, float* inverse_rms) {
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < rows; ++row)
        rms_norm_row(width, epsilon, x + row * width, added == nullptr ? nullptr : added + row * width, weight,
                     normed + row * width, inverse_rms + row);
}

void rms_norm_backward(std::int64_t rows, std::int64_t width, const float* x, const float* weight,
                       const float* inverse_rms, const float* gradient_normed, float* gradient_x,
                       float* weight_gradient, float beta) {
    // One partial weight gradient per thread, added up in the threads' order.
    const auto threads = static_cast<std::int64_t>(omp_get_max_threads());
    std::vector<float> partial(static_cast<std::size_t>(threads * width), 0.0F);
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(threads))
    for (std::int64_t part = 0; part < threads; ++part) {
        float* mine = partial.data() + part * width;
        for (std::int64_t row = rows * part / threads; row < rows * (part + 1) / threads; ++row)
            rms_norm_backward_row(width, x + row * width, weight, inverse_rms[row], gradient_normed + row * width,
                                  gradient_x + row * width, mine);
    }
    for (std::int64_t i = 0; i < width; ++i) {
        float sum = beta == 0.0F ? 0.0F : beta * weight_gradient[i];
        for (std::int64_t part = 0; part < threads; ++part) sum += partial[static_cast<std::size_t>(part * width + i)];
        weight_gradient[i] = sum;
    }
}

void swiglu(std::int64_t rows, std::int64_t width, const float* gate_up, float* hidden) {
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < rows; ++row) {
        const float* gate = gate_up + row * 2 * width;
        swiglu_row(width, gate, gate + width, hidden + row * width);
    }
}

void swiglu_backward(std::int64_t rows, std::int64_t width, float* gate_up, const float* gradient_hidden) {
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < rows; ++row) {
        float* gate = gate_up + row * 2 * width;
        swiglu_backward_row(width, gate, gate + width, gradient_hidden + row * width);
    }
}

void rope(const RopeTable& table, std::int64_t rows, std::int64_t positions, std::int64_t heads, std::int64_t stride,
          float* x, bool inverse) {
    const std::int64_t half = table.half;
    const float direction = inverse ? -1.0F : 1.0F;
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t at = (row % positions) * half;
        for (std::int64_t head = 0; head < heads; ++head) {
            float* values = x + row * stride + head * 2 * half;
            rope_head(half, table.cosine.data() + at, table.sine.data() + at, direction, values, values + half);
        }
    }
}

RowLosses cross_entropy(std::int64_t rows, std::int64_t classes, const std::int64_t* targets, float* logits,
                        std::optional<float> scale) {
    std::vector<double> losses(static_cast<std::size_t>(rows));
    std::uint64_t correct = 0;
#pragma omp parallel for schedule(static) reduction(+ : correct)
    for (std::int64_t row = 0; row < rows; ++row) {
        float* values = logits + row * classes;
        const std::int64_t target = targets[row];
        const float wanted = values[target];
        const RowSoftmax softmax = softmax_row(classes, values);
        losses[static_cast<std::size_t>(row)] =
            std::log(static_cast<double>(softmax.sum)) + static_cast<double>(softmax.largest) - wanted;
        const bool earlier_tie = std::find(values, values + target, 1.0F) != values + target;  // e^0: the largest
        correct += wanted == softmax.largest && !earlier_tie ? 1 : 0;
        if (scale) {
            scale_row(classes, *scale / softmax.sum, values);
            values[target] -= *scale;
        }
    }
    RowLosses result;
    for (const double loss : losses) result.loss_sum += loss;
    result.correct = correct;
    return result;
}

void embed(std::span<const std::int64_t> tokens, std::int64_t width, const float* table, float* x) {
    const auto rows = static_cast<std::int64_t>(tokens.size());
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < rows; ++row) {
        const float* from = table + tokens[static_cast<std::size_t>(row)] * width;
        std::copy(from, from + width, x + row * width);
    }
}

void embed_backward(std::span<const std::int64_t> tokens, std::int64_t width, const float* gradient,
                    float* table_gradient) {
    // Tokens repeat, so threads divide the columns, not the rows.
    const auto threads = static_cast<std::int64_t>(omp_get_max_threads());
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(threads))
    for (std::int64_t part = 0; part < threads; ++part) {
        const std::int64_t begin = width * part / threads;
        const std::int64_t end = width * (part + 1) / threads;
        for (std::size_t row = 0; row < tokens.size(); ++row)
            add_row(end - begin, gradient + static_cast<std::int64_t>(row) * width + begin,
                    table_gradient + tokens[row] * width + begin);
    }
}

}  // namespace chaos::compute
