// A model may be divided between several nodes, each of which has a slice of every layer (DESIGN.md, "The same
// tokens"):
//
//   query heads       rows of Q, columns of the attention's output; with the rows of K and V that they need, which
//                     several nodes have where the queries that share them are divided
//   FFN columns       rows of gate and up, columns of down
//   vocabulary        rows of the head
//
// Columns are divided where a block of multiply_fixed() begins, so that it makes no difference to any sum: query heads
// in units of head_unit(), FFN columns in units of ffn_unit(). Any of the three may be empty.
#pragma once

#include "base/result.h"
#include "infer/config.h"

#include <cstddef>
#include <cstdint>

namespace chaos::infer {

// [first, first + count)
struct Extent {
    std::int64_t first = 0;
    std::int64_t count = 0;

    [[nodiscard]] std::int64_t end() const { return first + count; }
    friend bool operator==(const Extent&, const Extent&) = default;
};

struct Slice {
    Extent heads;
    Extent ffn;
    Extent vocab;

    friend bool operator==(const Slice&, const Slice&) = default;
};

[[nodiscard]] Slice whole(const Config& config);
// Whether such a slice of the model can be computed, or why not.
[[nodiscard]] Result<void> check_slice(const Config& config, const Slice& slice);

// Query heads that stay together in every division; the last unit may have fewer.
[[nodiscard]] std::int64_t head_unit(const Config& config);
// FFN columns likewise.
[[nodiscard]] std::int64_t ffn_unit(const Config& config);
// Columns of the attention's output and of down that are summed as one before sums become integers.
[[nodiscard]] std::size_t output_block(const Config& config);
[[nodiscard]] std::size_t down_block(const Config& config);

// The KV heads that a slice's queries look at.
[[nodiscard]] Extent kv_heads_of(const Config& config, const Slice& slice);
// Those of the slice's queries that look at a KV head, all counted from the slice's first.
[[nodiscard]] Extent queries_of(const Config& config, const Slice& slice, std::int64_t kv_head);

// The sizes of what a node with this slice computes and keeps: the model's, with the slice's heads, KV heads, FFN
// columns and vocabulary.
[[nodiscard]] Config part_of(const Config& config, const Slice& slice);

}  // namespace chaos::infer
