#include "infer/kv_cache.h"

#include "base/assert.h"
#include "infer/attention.h"

#include <cstring>

namespace chaos::infer {
namespace {

// Of one KV head, keys first; whole groups of keys, so that both are aligned.
std::size_t head_numbers(std::size_t capacity, std::size_t head_width) {
    return 2 * key_numbers(capacity, head_width);
}

}  // namespace

std::uint64_t KvCache::bytes(const Config& config, std::size_t capacity, KvType type) {
    return static_cast<std::uint64_t>(config.layers * config.kv_heads) *
           head_numbers(capacity, static_cast<std::size_t>(config.head_width)) * (type == KvType::f16 ? 2 : 4);
}

Result<KvCache> KvCache::make(const Config& config, std::size_t capacity, KvType type) {
    KvCache cache;
    CHAOS_TRY(cache.memory_, HugePages::allocate(bytes(config, capacity, type)));
    cache.type_ = type;
    cache.capacity_ = capacity;
    cache.kv_heads_ = static_cast<std::size_t>(config.kv_heads);
    cache.head_width_ = static_cast<std::size_t>(config.head_width);
    return cache;
}

void KvCache::grow(std::size_t tokens) {
    CHAOS_ASSERT(tokens <= capacity_ - size_);
    size_ += tokens;
}

void KvCache::cut(std::size_t size) {
    CHAOS_ASSERT(size <= size_);
    size_ = size;
}

void KvCache::copy(const KvCache& from, std::size_t tokens) {
    CHAOS_ASSERT(&from != this && from.capacity_ == capacity_ && from.type_ == type_ && tokens <= from.size_);
    CHAOS_ASSERT(from.memory_.bytes().size() == memory_.bytes().size());
    const std::size_t number = type_ == KvType::f16 ? 2 : 4;
    const std::size_t half = head_numbers(capacity_, head_width_) / 2 * number;
    // A last group of keys that is not full is copied whole: what is too much there is written before it is read.
    const std::size_t keys = key_numbers(tokens, head_width_) * number;
    const std::size_t values = tokens * head_width_ * number;
    for (std::size_t at = 0; at < memory_.bytes().size(); at += 2 * half) {
        std::memcpy(memory_.data() + at, from.memory_.data() + at, keys);
        std::memcpy(memory_.data() + at + half, from.memory_.data() + at + half, values);
    }
    size_ = tokens;
}

void KvCache::store(std::size_t layer, std::size_t kv_head, std::size_t position, std::span<const float> key,
                    std::span<const float> value) const {
    CHAOS_ASSERT(position < size_);
    if (type_ == KvType::f16)
        store_key_value(head<std::uint16_t>(layer, kv_head), position, key, value);
    else
        store_key_value(head<float>(layer, kv_head), position, key, value);
}

void KvCache::attend(std::size_t layer, std::size_t kv_head, std::size_t positions, std::span<const float> queries,
                     float scale, std::vector<float>& scores, std::span<float> out) const {
    CHAOS_ASSERT(positions <= size_);
    if (type_ == KvType::f16)
        infer::attend(head<std::uint16_t>(layer, kv_head), positions, queries, scale, scores, out);
    else
        infer::attend(head<float>(layer, kv_head), positions, queries, scale, scores, out);
}

template <class Number>
KvHead<Number> KvCache::head(std::size_t layer, std::size_t kv_head) const {
    const std::size_t numbers = head_numbers(capacity_, head_width_);
    auto* first = reinterpret_cast<Number*>(memory_.data()) + (layer * kv_heads_ + kv_head) * numbers;
    return {first, first + numbers / 2, head_width_};
}

}  // namespace chaos::infer
