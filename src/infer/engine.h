// The engine computes logits: what a model makes of tokens, given those before. It takes pieces of several sequences at
// once; the bits of a token's logits depend on its own sequence alone, not on what is computed beside it, in how many
// pieces, on how many threads or by which instructions (multiply.h).
//
//   tokens -> embedding -> layers -> norm -> head
//
//   a layer: norm, Q K V, RoPE, attention, output, + ; norm, gate, up, silu, down, +
//
// Several engines may compute one model together, each with a slice of it (slice.h): all of them are given the same
// pieces, and get the same logits, which are those of one alone. At the end of a layer's halves they add what each has,
// at the end of all layers they tell each other logits, unless every one has the whole head:
//
//   slice 0   norm, some heads, output ──┐                    ┌── + ; norm, some columns, down ──┐
//   slice 1   norm, some heads, output ──┴─ sum of integers ──┴── + ; norm, some columns, down ──┴─ ...
//
// Of a long piece, the sums of one half travel while the other half is computed.
//
// A sequence ends where its cache does: forward() refuses tokens beyond it, and the caller says so or starts anew.
// Nothing is ever forgotten silently.
#pragma once

#include "base/result.h"
#include "infer/activations.h"
#include "infer/exchange.h"
#include "infer/kv_cache.h"
#include "infer/model.h"
#include "infer/multiply.h"
#include "infer/pool.h"
#include "infer/slice.h"
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
    // Of those, so many of the greatest are needed; others may be minus infinity. 0: all are.
    std::size_t best = 0;
};

class Engine {
public:
    // Tokens of one forward(), at most. A longer prompt is given in several pieces.
    static constexpr std::size_t max_tokens = 256;
    // What a forward() of so many tokens, of which `logits` are asked for, takes beside weights and caches.
    [[nodiscard]] static std::uint64_t bytes(const Config& config, std::size_t tokens, std::size_t logits);

    // All must outlive it. `exchange`: with those who have the other slices; null: the slice is the whole model.
    Engine(const Model& model, Pool& pool, Exchange* exchange = nullptr);

    [[nodiscard]] const Config& config() const { return config_; }
    // Of what this engine has a slice of: that is what caches hold.
    [[nodiscard]] const Config& part() const { return part_; }
    // Tokens of one forward(): fewer than max_tokens where memory is short.
    [[nodiscard]] std::size_t batch_tokens() const;

    // Appends the pieces to their caches (each cache once) and returns the logits asked for, row after row in the order
    // of pieces and tokens. They are good until the next call. On an error nothing was appended.
    // Weights that cannot be read are one (window.h), and others who are gone (exchange.h).
    [[nodiscard]] Result<std::span<const float>> forward(std::span<const Piece> pieces);

private:
    // A token of a piece.
    struct Row {
        KvCache* cache = nullptr;
        std::size_t position = 0;
        TokenId token = 0;
        bool logits = false;
        std::size_t best = 0;
    };
    // Rows that go through the layers together.
    struct Lane {
        std::size_t first = 0;
        std::size_t count = 0;
        Activations activations;
        std::vector<std::int64_t> sums;   // what is to be added to the hidden state
        const Linear* pending = nullptr;  // whose sums they are
    };
    [[nodiscard]] Result<void> lay_out(std::span<const Piece> pieces);
    [[nodiscard]] Result<void> compute();
    void start();
    void divide_into_lanes();
    template <class Work>
    void for_rows(const Lane& lane, const Work& work);
    void normalize(Lane& lane, std::span<const float> weights, Activations::Forms forms);
    [[nodiscard]] Result<void> multiply_floats(const Activations& activations,
                                               std::initializer_list<const Linear*> linears,
                                               std::span<const Product> products);
    [[nodiscard]] Result<void> attention(Lane& lane, std::size_t index, const LayerWeights& layer);
    void attend_row(std::size_t index, std::size_t row, std::size_t kv_head);
    void prepare_heads(std::size_t index, const LayerWeights& layer, std::size_t row);
    [[nodiscard]] Result<void> ffn(Lane& lane, const LayerWeights& layer, bool last);
    [[nodiscard]] Result<void> begin_product(Lane& lane, const Linear& linear, std::size_t block_columns, bool last);
    void bring_near(std::initializer_list<const Linear*> next) const;
    [[nodiscard]] Result<void> end_product(Lane& lane);
    [[nodiscard]] Result<void> head();
    [[nodiscard]] Result<void> tell_each_other(std::span<const std::size_t> best);

    std::span<float> row_of(std::vector<float>& values, std::size_t row, std::int64_t width) const {
        const auto size = static_cast<std::size_t>(width);
        return std::span(values).subspan(row * size, size);
    }

    const Model& model_;
    const Config& config_;
    Pool& pool_;
    Exchange* exchange_;
    Config part_;
    std::vector<Extent> queries_of_;  // each KV head
    std::vector<float> angle_steps_;
    std::size_t output_block_ = 0;
    std::size_t down_block_ = 0;

    std::vector<Row> rows_;
    std::vector<Lane> lanes_;
    std::vector<float> cosines_;
    std::vector<float> sines_;
    std::vector<float> hidden_;
    std::vector<float> queries_;
    std::vector<float> keys_;
    std::vector<float> values_;
    std::vector<float> attended_;
    std::vector<float> gates_;
    std::vector<float> ups_;
    std::vector<float> logits_;
    std::vector<float> own_logits_;  // of a slice
};

}  // namespace chaos::infer
