// The matrices of a Llama of dim 2048, 16 layers, 32 query and 8 KV heads, FFN 8192 and vocabulary 32000, filled with
// one number: what is computed does not matter here, only how fast. And the products that a token needs of them,
// grouped and divided as a forward pass does it, without what lies between.
#pragma once

#include "base/result.h"
#include "infer/activations.h"
#include "infer/huge_pages.h"
#include "infer/multiply.h"

#include <vector>

namespace chaos::bench {

inline constexpr std::size_t bench_dim = 2048;
inline constexpr std::size_t bench_kv_dim = 512;
inline constexpr std::size_t bench_ffn = 8192;
inline constexpr std::size_t bench_layers = 16;
inline constexpr std::size_t bench_vocabulary = 32000;

class BenchWeights {
public:
    [[nodiscard]] static Result<BenchWeights> make(infer::Format format);

    // Products that are computed together: of each layer queries, keys and values; the attention's output; gate and up;
    // down; and the head. They are measured one by one, because most are over before anybody else gets a turn on the
    // core.
    static constexpr std::size_t parts = 4 * bench_layers + 1;
    [[nodiscard]] std::span<const std::byte> bytes(std::size_t part) const;
    [[nodiscard]] std::size_t bytes() const { return pages_.bytes().size(); }
    // Of a layer, per token.
    [[nodiscard]] static constexpr double layer_multiply_adds() {
        return bench_dim * (2 * bench_dim + 2 * bench_kv_dim + 3 * bench_ffn);
    }

    // Sets how many rows of activations are multiplied at once.
    void prepare(std::size_t tokens);
    void multiply_part(infer::Pool& pool, std::size_t part);

private:
    struct Part {
        std::vector<infer::Matrix> matrices;
        bool in_fixed_point = false;
    };

    infer::HugePages pages_;
    std::vector<Part> parts_;

    infer::Activations narrow_;
    infer::Activations wide_;
    std::vector<float> results_;
    std::vector<std::int64_t> sums_;
};

}  // namespace chaos::bench
