// A shard is the smallest part of the state that travels by itself: a range of parameters with its slots, or, the last
// one, all buffers. Every member cuts the same state into the same shards.
//
//   parameters   | 0 | 1 | 2 | ... | n-2 |        shard i: parameters and slots of its range, one after the other
//   slot 0       | 0 | 1 | 2 | ... | n-2 |
//   slot 1       | 0 | 1 | 2 | ... | n-2 |
//   buffers      | n-1 |                          there only where the model has buffers
//
// An update is elementwise, so a shard can be brought from one step to the next by its part of R(s) alone.
#pragma once

#include "base/hash.h"
#include "state/arena.h"
#include "state/update.h"

#include <cstdint>
#include <span>
#include <vector>

namespace chaos::state {

// Half-open.
struct FloatRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    [[nodiscard]] std::uint64_t count() const { return end - begin; }
    friend bool operator==(const FloatRange&, const FloatRange&) = default;
};

// Consecutive shards.
struct ShardSpan {
    std::uint32_t first = 0;
    std::uint32_t count = 0;

    friend bool operator==(const ShardSpan&, const ShardSpan&) = default;
};

class Shards {
public:
    static constexpr std::uint64_t default_parameters = 16384;  // of one shard

    Shards(const Manifest& manifest, unsigned slots, std::uint64_t parameters_per_shard = default_parameters);

    [[nodiscard]] std::uint32_t count() const { return count_; }
    [[nodiscard]] bool fits(ShardSpan span) const;
    // Floats of the state in these shards.
    [[nodiscard]] std::uint64_t floats(ShardSpan span) const;
    // Where in R(s) their part lies, without what R(s) holds behind gradient and buffers.
    [[nodiscard]] FloatRange in_result(ShardSpan span) const;

    // As they travel: shard by shard, each with its parameters, then its slots.
    void copy_out(const Arena& arena, ShardSpan span, std::span<float> to) const;
    void copy_in(std::span<const float> from, ShardSpan span, Arena& arena) const;

    // Brings these shards from one step to the next; `part` is their part of R(s).
    void apply(const run::Optimizer& optimizer, const Manifest& manifest, const UpdateScalars& scalars, ShardSpan span,
               std::span<const float> part, Arena& arena) const;

    // Of each shard: XXH3 of the XXH3 of its parameters and of each slot.
    [[nodiscard]] std::vector<std::uint64_t> hashes(const Arena& arena) const;

private:
    [[nodiscard]] FloatRange parameters_of(std::uint32_t shard) const;
    [[nodiscard]] bool is_buffers(std::uint32_t shard) const { return buffers_ > 0 && shard + 1 == count_; }

    std::uint64_t parameters_;
    std::uint64_t buffers_;
    unsigned slots_;
    std::uint64_t per_shard_;
    std::uint32_t count_;
};

// The name of the whole state, given its shards' hashes.
[[nodiscard]] Digest root_of(std::span<const std::uint64_t> shard_hashes);

}  // namespace chaos::state
