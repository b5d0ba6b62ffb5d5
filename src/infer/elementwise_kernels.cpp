#include "infer/kernels.h"

namespace chaos::infer {

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

void attend(const AttentionJob& job) {
    portable::attend(job);
}

}  // namespace chaos::infer
