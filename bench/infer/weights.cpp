#include "weights.h"

#include <array>
#include <cstring>

namespace chaos::bench {

using infer::Format;
using infer::Matrix;

Result<BenchWeights> BenchWeights::make(Format format) {
    BenchWeights weights;
    const auto layer_bytes = [&] {
        return 2 * infer::packed_bytes(format, bench_dim, bench_dim) +
               2 * infer::packed_bytes(format, bench_kv_dim, bench_dim) +
               2 * infer::packed_bytes(format, bench_ffn, bench_dim) +
               infer::packed_bytes(format, bench_dim, bench_ffn);
    };
    const std::size_t bytes = bench_layers * layer_bytes() + infer::packed_bytes(format, bench_vocabulary, bench_dim);
    CHAOS_TRY(weights.pages_, infer::HugePages::allocate(bytes));
    // As a scale and as a weight, in every format, some small number.
    std::memset(weights.pages_.data(), 0x2c, bytes);
    std::size_t used = 0;
    const auto next = [&](std::size_t rows, std::size_t columns) {
        const Matrix matrix{format, rows, columns, weights.pages_.data() + used};
        used += infer::packed_bytes(format, rows, columns);
        return matrix;
    };
    for (std::size_t i = 0; i < bench_layers; ++i) {
        weights.parts_.push_back(
            {{next(bench_dim, bench_dim), next(bench_kv_dim, bench_dim), next(bench_kv_dim, bench_dim)}});
        weights.parts_.push_back({{next(bench_dim, bench_dim)}, true});
        weights.parts_.push_back({{next(bench_ffn, bench_dim), next(bench_ffn, bench_dim)}});
        weights.parts_.push_back({{next(bench_dim, bench_ffn)}, true});
    }
    weights.parts_.push_back({{next(bench_vocabulary, bench_dim)}});
    CHAOS_ASSERT(used == bytes);
    return weights;
}

std::span<const std::byte> BenchWeights::bytes(std::size_t part) const {
    const std::byte* end =
        part + 1 < parts ? parts_[part + 1].matrices.front().packed : pages_.data() + pages_.bytes().size();
    return {parts_[part].matrices.front().packed, end};
}

void BenchWeights::prepare(std::size_t tokens) {
    infer::Activations::Forms forms;
    forms.add(parts_.front().matrices.front().format);
    narrow_.resize(tokens, bench_dim, forms);
    wide_.resize(tokens, bench_ffn, forms);
    for (std::size_t i = 0; i < tokens; ++i) {
        narrow_.set(i, std::vector<float>(bench_dim, 0.5F));
        wide_.set(i, std::vector<float>(bench_ffn, 0.5F));
    }
    results_.resize(tokens * bench_vocabulary);
    sums_.resize(tokens * bench_dim);
}

void BenchWeights::multiply_part(infer::Pool& pool, std::size_t part) {
    const Part& what = parts_[part];
    const infer::Activations& activations = what.matrices.front().columns == bench_dim ? narrow_ : wide_;
    if (what.in_fixed_point) {
        // Four heads of 64 dimensions share keys and stay together; the FFN is divided by blocks.
        const std::size_t block_columns = infer::block_columns_of(4 * (bench_dim / 32));
        const infer::FixedProduct product{what.matrices.front(), sums_.data(), bench_dim};
        return multiply_fixed(pool, activations, block_columns, {&product, 1});
    }
    std::vector<infer::Product> products;
    std::size_t stride = 0;
    for (const Matrix& matrix : what.matrices) stride += matrix.rows;
    std::size_t first = 0;
    for (const Matrix& matrix : what.matrices) {
        products.push_back({matrix, results_.data() + first, stride});
        first += matrix.rows;
    }
    multiply(pool, activations, products);
}

}  // namespace chaos::bench
