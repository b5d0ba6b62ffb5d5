// Matrix products on plain memory, so that results land where they belong (a gradient in the arena, a head's slice
// of a larger matrix) without a tensor in between. BLAS does the work.
#pragma once

#include <cstdint>

namespace chaos::compute {

// A matrix in row-major memory: element (i, j) is data[i * stride + j].
struct Matrix {
    const float* data;
    std::int64_t stride;
    bool transposed = false;  // use it as its transpose
};

// c[m x n] = alpha * a[m x k] * b[k x n] + beta * c, where a and b have those sizes after transposition.
// Runs on all threads, or on the caller's alone inside a parallel region.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, Matrix a, Matrix b, float beta, float* c,
          std::int64_t c_stride);

}  // namespace chaos::compute
