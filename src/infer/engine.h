// The engine computes logits: what a model makes of tokens, given those before. It takes pieces of several sequences at
// once; the bits of a token's logits depend on its own sequence alone, not on what is computed beside it, in how many
// pieces, on how many threads or by which instructions (multiply.h).
//
//   tokens -> embedding -> layers -> norm -> head
//
//   a layer: norm, Q K V, RoPE, attention, output, + ; norm, gate, up, silu, down, +
//
// A sequence ends where its cache does: forward() refuses tokens beyond it, and the caller says so or starts anew.
// Nothing is ever forgotten silently.
#pragma once

#include "base/result.h"
#include "infer/activations.h"
#include "infer/kv_cache.h"
#include "infer/model.h"
#include "infer/multiply.h"
#include "infer/pool.h"
#include "text/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace chaos::infer {

using text::TokenId;

// Tokens that follow those in the cache.
struct Piece {
    KvCache* cache = nullptr;
    std::span<const TokenId> tokens;
    std::size_t logits = 0;  // for so many of the last tokens
};

class Engine {
public:
    // Tokens of one forward(), at most. A longer prompt is given in several pieces.
    static constexpr std::size_t max_tokens = 256;
    // What a forward() of so many tokens, of which `logits` are asked for, takes beside weights and caches.
    [[nodiscard]] static std::uint64_t bytes(const Config& config, std::size_t tokens, std::size_t logits);

    // Both must outlive it.
    Engine(const Model& model, Pool& pool);

    [[nodiscard]] const Config& config() const { return config_; }
    // Tokens of one forward(): fewer than max_tokens where memory is short.
    [[nodiscard]] std::size_t batch_tokens() const;

    // Appends the pieces to their caches (each cache once) and returns the logits asked for, row after row in the order
    // of pieces and tokens. They are good until the next call. On an error nothing was appended.
    // Weights that cannot be read are one (window.h).
    [[nodiscard]] Result<std::span<const float>> forward(std::span<const Piece> pieces);

private:
    // A token of a piece.
    struct Row {
        KvCache* cache = nullptr;
        std::size_t position = 0;
        TokenId token = 0;
        bool logits = false;
    };
    [[nodiscard]] Result<void> lay_out(std::span<const Piece> pieces);
    [[nodiscard]] Result<void> compute();
    void start();
    void normalize(std::span<const float> weights, Activations::Forms forms);
    [[nodiscard]] Result<void> multiply_floats(std::initializer_list<const Linear*> linears,
                                               std::span<const Product> products);
    [[nodiscard]] Result<void> attention(std::size_t index, const LayerWeights& layer);
    void attend_row(std::size_t index, std::size_t row, std::size_t kv_head);
    void prepare_heads(std::size_t index, const LayerWeights& layer, std::size_t row);
    [[nodiscard]] Result<void> ffn(const LayerWeights& layer);
    [[nodiscard]] Result<void> add_product(const Linear& linear, std::size_t block_columns);
    [[nodiscard]] Result<void> head();

    std::span<float> row_of(std::vector<float>& values, std::size_t row, std::int64_t width) const {
        const auto size = static_cast<std::size_t>(width);
        return std::span(values).subspan(row * size, size);
    }

    const Model& model_;
    const Config& config_;
    Pool& pool_;
    std::vector<float> angle_steps_;
    std::size_t output_block_ = 0;
    std::size_t down_block_ = 0;

    std::vector<Row> rows_;
    std::vector<float> cosines_;
    std::vector<float> sines_;
    std::vector<float> hidden_;
    Activations activations_;
    std::vector<float> queries_;
    std::vector<float> keys_;
    std::vector<float> values_;
    std::vector<float> attended_;
    std::vector<float> gates_;
    std::vector<float> ups_;
    std::vector<std::int64_t> sums_;
    std::vector<float> logits_;
};

}  // namespace chaos::infer
