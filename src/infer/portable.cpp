#include "base/half.h"
#include "infer/elementwise.h"
#include "infer/kernels.h"
#include "infer/multiply.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace chaos::infer::portable {
namespace {

constexpr std::size_t panel_scale_bytes = panel_rows * 2;

template <class T>
T value_at(const std::byte* from) {
    T value{};
    std::memcpy(&value, from, sizeof value);
    return value;
}

float weight_at(Format format, const std::byte* panel, std::size_t index) {
    if (format == Format::f32) return value_at<float>(panel + index * 4);
    const auto bits = value_at<std::uint16_t>(panel + index * 2);
    return format == Format::f16 ? f16_to_float(bits) : bf16_to_float(bits);
}

// The sum of products of 32 columns of one row, exact.
std::int32_t group_sum(Format format, const std::byte* group, std::size_t lane, const std::int8_t* activations) {
    const std::byte* quants = group + panel_scale_bytes + lane * 4;
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < scale_columns; ++i) {
        std::int32_t weight = 0;
        if (format == Format::q8_0) {
            weight = (std::to_integer<std::int32_t>(quants[i / 4 * 4 * panel_rows + i % 4]) ^ 128) - 128;
        } else {
            const auto both = static_cast<std::uint8_t>(quants[i / 8 * 4 * panel_rows + i % 4]);
            weight = (i % 8 < 4 ? both & 0xf : both >> 4) - 8;
        }
        sum += weight * activations[i];
    }
    return sum;
}

// The sum over columns [first, last) of one row of the panel; they lie in one block of 256.
float block_sum(const PanelJob& job, const std::byte* panel, std::size_t lane, std::size_t row, std::size_t first,
                std::size_t last) {
    const Activations& activations = *job.activations;
    const std::size_t block = first / activation_columns;
    const Format format = job.matrix.format;
    float sum = 0.0F;
    if (!is_quantized(format)) {
        const float* values = activations.floats(block, row);
        for (std::size_t column = first; column < last; ++column) {
            const float weight = weight_at(format, panel, column * panel_rows + lane);
            sum = std::fma(weight, values[column % activation_columns], sum);
        }
        return sum;
    }
    const std::size_t bytes = panel_bytes(format, scale_columns);
    for (std::size_t column = first; column < last; column += scale_columns) {
        const std::byte* group = panel + column / scale_columns * bytes;
        const std::size_t within = column % activation_columns;
        const std::int32_t exact = group_sum(format, group, lane, activations.bytes(block, row) + within);
        const float scale = f16_to_float(value_at<std::uint16_t>(group + lane * 2)) *
                            activations.scales(block, row)[within / scale_columns];
        sum = std::fma(static_cast<float>(exact), scale, sum);
    }
    return sum;
}

using Parts = std::array<float, 16>;

float total_of(Parts parts) {
    for (std::size_t half = parts.size() / 2; half > 0; half /= 2)
        for (std::size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
    return parts[0];
}

}  // namespace

void multiply_panels(const PanelJob& job) {
    const Matrix& matrix = job.matrix;
    const std::size_t bytes = panel_bytes(matrix.format, matrix.columns);
    const std::size_t end = std::min(job.last_panel * panel_rows, matrix.rows);
    for (std::size_t row = 0; row < job.activations->rows(); ++row) {
        for (std::size_t at = job.first_panel * panel_rows; at < end; ++at) {
            const std::byte* panel = matrix.packed + at / panel_rows * bytes;
            float result = 0.0F;
            std::int64_t sum = 0;
            for (std::size_t first = 0; first < matrix.columns; first += job.block_columns) {
                const std::size_t last = std::min(first + job.block_columns, matrix.columns);
                const float part = block_sum(job, panel, at % panel_rows, row, first, last);
                result += part;
                sum += to_fixed(part);
            }
            if (job.results != nullptr) job.results[row * job.stride + at] = result;
            if (job.sums != nullptr) job.sums[row * job.stride + at] += sum;
        }
    }
}

Quantized quantize_columns(const float* values, std::int8_t* bytes) {
    float greatest = 0.0F;
    bool finite = true;
    for (std::size_t i = 0; i < scale_columns; ++i) {
        finite = finite && std::isfinite(values[i]);
        greatest = std::max(greatest, std::fabs(values[i]));
    }
    std::memset(bytes, 0, scale_columns);
    if (!finite) return {.scale = std::numeric_limits<float>::quiet_NaN(), .sum = 0};
    if (greatest < 1e-30F) return {};
    const float factor = 127.0F / greatest;
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < scale_columns; ++i) {
        bytes[i] = static_cast<std::int8_t>(std::nearbyint(values[i] * factor));
        sum += bytes[i];
    }
    return {.scale = greatest / 127.0F, .sum = sum};
}

void rms_norm(const float* values, const float* weights, std::size_t count, float epsilon, float* out) {
    Parts parts{};
    for (std::size_t i = 0; i < count; ++i)
        parts[i % parts.size()] = std::fma(values[i], values[i], parts[i % parts.size()]);
    const float factor = 1.0F / std::sqrt(total_of(parts) / static_cast<float>(count) + epsilon);
    for (std::size_t i = 0; i < count; ++i) out[i] = values[i] * factor * weights[i];
}

void silu_times(const float* gate, const float* up, std::size_t count, float* out) {
    for (std::size_t i = 0; i < count; ++i) out[i] = gate[i] / (1.0F + exponential(-gate[i])) * up[i];
}

void softmax(float* values, std::size_t count) {
    float greatest = -std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < count; ++i) greatest = values[i] > greatest ? values[i] : greatest;
    Parts parts{};
    for (std::size_t i = 0; i < count; ++i) {
        values[i] = exponential(values[i] - greatest);
        parts[i % parts.size()] += values[i];
    }
    const float factor = 1.0F / total_of(parts);
    for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
}

template <class Number>
void attend_to(const AttentionJob<Number>& job) {
    const std::size_t dimensions = job.head.dimensions;
    for (std::size_t query = 0; query < job.query_count; ++query) {
        const float* values = job.queries + query * dimensions;
        for (std::size_t position = 0; position < job.positions; ++position) {
            const Number* keys = job.head.keys + position / key_group * key_group * dimensions + position % key_group;
            float score = 0.0F;
            for (std::size_t i = 0; i < dimensions; ++i)
                score = std::fma(as_float(keys[i * key_group]), values[i], score);
            job.scores[position] = score * job.scale;
        }
        softmax(job.scores, job.positions);
        for (std::size_t i = 0; i < dimensions; ++i) {
            float sum = 0.0F;
            for (std::size_t position = 0; position < job.positions; ++position)
                sum = std::fma(as_float(job.head.values[position * dimensions + i]), job.scores[position], sum);
            job.out[query * dimensions + i] = sum;
        }
    }
}

void attend(const AttentionJob<std::uint16_t>& job) {
    attend_to(job);
}

void attend(const AttentionJob<float>& job) {
    attend_to(job);
}

}  // namespace chaos::infer::portable
