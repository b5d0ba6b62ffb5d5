#include "compute/torch/gemm.h"

#include "compute/torch/torch.h"

#include <dlfcn.h>

namespace chaos::compute {
namespace {

// The BLAS that LibTorch itself uses (the host has loaded the right one before the plugin). Wheels with a hidden BLAS
// have no such symbol; there LibTorch's own operator is asked.
using Sgemm = void (*)(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
                       const int*, const float*, const int*, const float*, float*, const int*);

Sgemm find_sgemm() {
    return reinterpret_cast<Sgemm>(dlsym(RTLD_DEFAULT, "sgemm_"));
}

at::Tensor view(const Matrix& matrix, std::int64_t rows, std::int64_t columns) {
    const at::Tensor tensor = at::from_blob(const_cast<float*>(matrix.data),
                                            {matrix.transposed ? columns : rows, matrix.transposed ? rows : columns},
                                            {matrix.stride, 1}, at::kFloat);
    return matrix.transposed ? tensor.t() : tensor;
}

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, Matrix a, Matrix b, float beta, float* c,
          std::int64_t c_stride) {
    static const Sgemm sgemm = find_sgemm();
    if (sgemm == nullptr) {
        const at::NoGradGuard no_grad;
        at::Tensor out = at::from_blob(c, {m, n}, {c_stride, 1}, at::kFloat);
        at::addmm_out(out, out, view(a, m, k), view(b, k, n), beta, alpha);
        return;
    }
    // BLAS is column-major: what it sees is the transposed product, c^T = b^T a^T.
    const int rows = static_cast<int>(n);
    const int columns = static_cast<int>(m);
    const int depth = static_cast<int>(k);
    const int stride_a = static_cast<int>(a.stride);
    const int stride_b = static_cast<int>(b.stride);
    const int stride_c = static_cast<int>(c_stride);
    sgemm(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &rows, &columns, &depth, &alpha, b.data, &stride_b,
          a.data, &stride_a, &beta, c, &stride_c);
}

}  // namespace chaos::compute
