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

// A block's sum in fixed point. Beyond +-fixed_limit it is the limit; what is not a number is -fixed_limit.
inline constexpr double fixed_unit = 0x1p32;
inline constexpr float fixed_limit = 262144.0F;
[[nodiscard]] std::int64_t to_fixed(float sum);
[[nodiscard]] inline float from_fixed(std::int64_t sum) {
    return static_cast<float>(static_cast<double>(sum) * (1.0 / fixed_unit));
}

}  // namespace chaos::infer
