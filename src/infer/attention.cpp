#include "infer/attention.h"

#include "base/assert.h"
#include "infer/half.h"
#include "infer/kernels.h"

namespace chaos::infer {

void store_key_value(const KvHead& head, std::size_t position, std::span<const float> key,
                     std::span<const float> value) {
    CHAOS_ASSERT(key.size() == head.dimensions && value.size() == head.dimensions);
    std::uint16_t* keys = head.keys + position / key_group * key_group * head.dimensions + position % key_group;
    std::uint16_t* values = head.values + position * head.dimensions;
    for (std::size_t i = 0; i < head.dimensions; ++i) {
        keys[i * key_group] = float_to_f16(key[i]);
        values[i] = float_to_f16(value[i]);
    }
}

void attend(const KvHead& head, std::size_t positions, std::span<const float> queries, float scale,
            std::vector<float>& scores, std::span<float> out) {
    CHAOS_ASSERT(positions > 0 && head.dimensions > 0 && queries.size() % head.dimensions == 0);
    CHAOS_ASSERT(out.size() == queries.size());
    const std::size_t count = queries.size() / head.dimensions;
    scores.resize(count * key_halves(positions, 1));
    attend({.head = head,
            .positions = positions,
            .queries = queries.data(),
            .query_count = count,
            .scale = scale,
            .scores = scores.data(),
            .out = out.data()});
}

}  // namespace chaos::infer
