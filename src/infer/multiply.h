// Products of activations and matrices: result[i][r] = sum over columns c of activations[i][c] * matrix[r][c].
//
// The bits of every result are a function of its own row of activations and row of weights, not of the instruction set,
// the number of threads, or the other rows (DESIGN.md, "The same tokens"):
//
//   f32, f16, bf16   a block's sum is taken from 0 on in the order of columns: sum = fma(weight, activation, sum)
//   q8_0, q4_0       per 32 columns an exact sum of integers s: sum = fma(float(s), weight's scale * activation's, sum)
//
// multiply() takes blocks of 256 columns and adds their sums in order. multiply_fixed() is for matrices whose columns
// may be divided between machines: it rounds each block's sum to a multiple of 2^-32 and adds them as integers, so that
// it makes no difference who added which. Blocks are as wide as the model says, never as the machine does.
#pragma once

#include "infer/activations.h"
#include "infer/matrix.h"
#include "infer/pool.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace chaos::infer {

struct Product {
    Matrix matrix;
    float* results = nullptr;
    std::size_t stride = 0;  // from one row of results to the next
};

// All matrices have the activations' columns; their panels are divided among the pool's threads together, so that
// several small ones cost one synchronisation.
void multiply(Pool& pool, const Activations& activations, std::span<const Product> products);

struct FixedProduct {
    Matrix matrix;
    std::int64_t* sums = nullptr;  // what is there is added to
    std::size_t stride = 0;
};

// The widest block that divides `unit`, the number of columns that stay together in every division: a power of two from
// 32 to 256. `unit` is a multiple of 32.
[[nodiscard]] std::size_t block_columns_of(std::size_t unit);

// `block_columns` is 32, 64, 128 or 256, and columns begin where a block does.
void multiply_fixed(Pool& pool, const Activations& activations, std::size_t block_columns,
                    std::span<const FixedProduct> products);

// A block's sum in fixed point. In place of one that is not a number, or beyond +-fixed_limit, stands fixed_beyond,
// which is so much that no sum of numbers makes up for it: whatever is added, and by whom, what comes of it is not
// below fixed_sum_limit, and so not a number. That holds for up to 2047 such blocks in one sum, where the others' sum
// is below fixed_sum_limit itself.
inline constexpr double fixed_unit = 0x1p32;
inline constexpr float fixed_limit = 0x1p18F;
inline constexpr float fixed_sum_limit = 0x1p19F;
inline constexpr std::int64_t fixed_beyond = std::int64_t{1} << 52;
[[nodiscard]] std::int64_t to_fixed(float sum);
[[nodiscard]] inline float from_fixed(std::int64_t sum) {
    constexpr auto limit = static_cast<std::int64_t>(static_cast<double>(fixed_sum_limit) * fixed_unit);
    if (sum <= -limit || sum >= limit) return std::numeric_limits<float>::quiet_NaN();
    return static_cast<float>(static_cast<double>(sum) * (1.0 / fixed_unit));
}
// The float whose bits, taken as below the limit, are fixed_beyond: 2^20 + 2^19, which makes the double that a sum is
// rounded in one exponent larger and leaves its other bits as they are.
inline constexpr float made_fixed_beyond = 0x1.8p20F;

}  // namespace chaos::infer
