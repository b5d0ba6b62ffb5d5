// Causal attention with grouped queries on packed rows, without storing the attention matrix: the backward pass
// computes it again, block by block, from one number per row.
//
//   one row of qkv:      | q of head 0 | q of head 1 | ... | k of kv head 0 | ... | v of kv head 0 | ... |
//   scores of one head:  a block of 64 queries against all keys up to its last query
//
#pragma once

#include <cstdint>

namespace chaos::compute {

struct AttentionShape {
    std::int64_t batch = 0;
    std::int64_t positions = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_width = 0;

    [[nodiscard]] std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_width; }
    [[nodiscard]] std::int64_t out_width() const { return heads * head_width; }
};

// out[batch * positions x out_width] from qkv[batch * positions x qkv_width]. log_sums[batch x heads x positions]
// keeps each row's logarithm of the sum of exponentials for the backward pass.
void attention(const AttentionShape& shape, const float* qkv, float* out, float* log_sums);

// gradient_qkv (overwritten) from gradient_out.
void attention_backward(const AttentionShape& shape, const float* qkv, const float* out, const float* log_sums,
                        const float* gradient_out, float* gradient_qkv);

}  // namespace chaos::compute
