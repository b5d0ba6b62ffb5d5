// What multiply(), Activations and the elementwise functions are made of, for one thread. Each function exists twice:
// in *_kernels.cpp for the instruction sets of the machine, chosen when it runs, and in portable.cpp, in plain words,
// which defines the bits. Tests compare the two; machines without fused multiply-add use the plain one.
#pragma once

#include "base/half.h"
#include "infer/activations.h"
#include "infer/attention.h"
#include "infer/matrix.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace chaos::infer {

// Some panels of a matrix, multiplied by all rows of activations.
struct PanelJob {
    const Activations* activations = nullptr;
    Matrix matrix{};
    std::size_t first_panel = 0;
    std::size_t last_panel = 0;  // behind the last one
    std::size_t block_columns = 0;
    float* results = nullptr;      // of the whole matrix; written, if there
    std::int64_t* sums = nullptr;  // of the whole matrix; else added to
    std::size_t stride = 0;
};

// Of 32 activations as bytes.
struct Quantized {
    float scale = 0.0F;
    std::int32_t sum = 0;
};

template <class Number>
struct AttentionJob {
    KvHead<Number> head{};
    std::size_t positions = 0;
    const float* queries = nullptr;
    std::size_t query_count = 0;
    float scale = 0.0F;
    float* scores = nullptr;  // query_count * positions, rounded up to whole groups of keys
    float* out = nullptr;
};

// Of keys and values.
[[nodiscard]] inline float as_float(std::uint16_t number) {
    return f16_to_float(number);
}
[[nodiscard]] inline float as_float(float number) {
    return number;
}

void multiply_quantized_panels(const PanelJob& job);
void multiply_float_panels(const PanelJob& job);
inline void multiply_panels(const PanelJob& job) {
    is_quantized(job.matrix.format) ? multiply_quantized_panels(job) : multiply_float_panels(job);
}
Quantized quantize_columns(const float* values, std::int8_t* bytes);
void rms_norm(const float* values, const float* weights, std::size_t count, float epsilon, float* out);
void silu_times(const float* gate, const float* up, std::size_t count, float* out);
// Replaces values by exp(value - greatest) / sum of these.
void softmax(float* values, std::size_t count);
void attend(const AttentionJob<std::uint16_t>& job);
void attend(const AttentionJob<float>& job);

// Highway's bits of the instruction sets that these were compiled for.
[[nodiscard]] std::vector<std::int64_t> compiled_targets();

namespace portable {

void multiply_panels(const PanelJob& job);
Quantized quantize_columns(const float* values, std::int8_t* bytes);
void rms_norm(const float* values, const float* weights, std::size_t count, float epsilon, float* out);
void silu_times(const float* gate, const float* up, std::size_t count, float* out);
void softmax(float* values, std::size_t count);
void attend(const AttentionJob<std::uint16_t>& job);
void attend(const AttentionJob<float>& job);

}  // namespace portable

}  // namespace chaos::infer
