// The keys and values of one sequence: what attention needs of the tokens before. Kept as F16, or as F32 by who wants
// no rounding and has twice the memory.
#pragma once

#include "base/result.h"
#include "infer/attention.h"
#include "infer/config.h"
#include "infer/huge_pages.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chaos::infer {

enum class KvType { f16, f32 };

class KvCache {
public:
    // Room for `capacity` tokens. Memory is taken from the system as it is filled.
    static Result<KvCache> make(const Config& config, std::size_t capacity, KvType type);
    // What that will take.
    [[nodiscard]] static std::uint64_t bytes(const Config& config, std::size_t capacity, KvType type);

    [[nodiscard]] std::size_t capacity() const { return capacity_; }
    // Tokens in it.
    [[nodiscard]] std::size_t size() const { return size_; }
    // Adds tokens whose keys and values are about to be stored.
    void grow(std::size_t tokens);
    // Forgets all but the first `size` tokens.
    void cut(std::size_t size);

    // Takes the first tokens of another cache of the same kind in place of what is here.
    void copy(const KvCache& from, std::size_t tokens);

    // One token's key and value of one KV head.
    void store(std::size_t layer, std::size_t kv_head, std::size_t position, std::span<const float> key,
               std::span<const float> value) const;
    // What the queries that share the KV head make of the first `positions` tokens (attention.h).
    void attend(std::size_t layer, std::size_t kv_head, std::size_t positions, std::span<const float> queries,
                float scale, std::vector<float>& scores, std::span<float> out) const;

private:
    template <class Number>
    [[nodiscard]] KvHead<Number> head(std::size_t layer, std::size_t kv_head) const;

    HugePages memory_;
    KvType type_ = KvType::f16;
    std::size_t capacity_ = 0;
    std::size_t size_ = 0;
    std::size_t kv_heads_ = 0;
    std::size_t head_width_ = 0;
};

}  // namespace chaos::infer
