// The elementwise and row-wise parts of a llama step, each one pass over memory. Matrices are row-major and dense
// unless a stride is named. All run on every thread, in an order that does not depend on timing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace chaos::compute {

// x += added (skipped when added is null); normed = x / rms(x) * weight; inverse_rms keeps 1 / rms(x) per row.
void rms_norm(std::int64_t rows, std::int64_t width, float epsilon, float* x, const float* added, const float* weight,
              float* normed, float* inverse_rms);

// gradient_x += (gradient of rms_norm's input, given that of `normed`); weight_gradient = beta * itself + its own.
void rms_norm_backward(std::int64_t rows, std::int64_t width, const float* x, const float* weight,
                       const float* inverse_rms, const float* gradient_normed, float* gradient_x,
                       float* weight_gradient, float beta);

// gate_up holds gate and up side by side in each row (2 x width). hidden = silu(gate) * up.
void swiglu(std::int64_t rows, std::int64_t width, const float* gate_up, float* hidden);
// Replaces gate_up by its gradient.
void swiglu_backward(std::int64_t rows, std::int64_t width, float* gate_up, const float* gradient_hidden);

// Rotary position embedding in Hugging Face's order: element i of a head is paired with i + head_width / 2.
struct RopeTable {
    std::vector<float> cosine;  // positions x head_width / 2
    std::vector<float> sine;
    std::int64_t half = 0;
};
// Rotates the first `heads` heads of every row in place; backwards with `inverse`.
void rope(const RopeTable& table, std::int64_t rows, std::int64_t positions, std::int64_t heads, std::int64_t stride,
          float* x, bool inverse);

// What cross_entropy found in some rows.
struct RowLosses {
    double loss_sum = 0.0;
    std::uint64_t correct = 0;
};
// Softmax cross-entropy of logits[rows x classes] against targets, which spoils the logits: with a scale they become
// their gradient times it. Among equal largest logits the first is the answer.
[[nodiscard]] RowLosses cross_entropy(std::int64_t rows, std::int64_t classes, const std::int64_t* targets,
                                      float* logits, std::optional<float> scale);

void embed(std::span<const std::int64_t> tokens, std::int64_t width, const float* table, float* x);
// table_gradient[token] += gradient of its row, in the order of the rows.
void embed_backward(std::span<const std::int64_t> tokens, std::int64_t width, const float* gradient,
                    float* table_gradient);

}  // namespace chaos::compute
