#include "infer/attention.h"

#include "base/assert.h"
#include "base/half.h"
#include "infer/kernels.h"

namespace chaos::infer {
namespace {

void set(std::uint16_t& number, float value) {
    number = float_to_f16(value);
}
void set(float& number, float value) {
    number = value;
}

}  // namespace

template <class Number>
void store_key_value(const KvHead<Number>& head, std::size_t position, std::span<const float> key,
                     std::span<const float> value) {
    CHAOS_ASSERT(key.size() == head.dimensions && value.size() == head.dimensions);
    Number* keys = head.keys + position / key_group * key_group * head.dimensions + position % key_group;
    Number* values = head.values + position * head.dimensions;
    for (std::size_t i = 0; i < head.dimensions; ++i) {
        set(keys[i * key_group], key[i]);
        set(values[i], value[i]);
    }
}

template <class Number>
void attend(const KvHead<Number>& head, std::size_t positions, std::span<const float> queries, float scale,
            std::vector<float>& scores, std::span<float> out) {
    CHAOS_ASSERT(positions > 0 && head.dimensions > 0 && queries.size() % head.dimensions == 0);
    CHAOS_ASSERT(out.size() == queries.size());
    const std::size_t count = queries.size() / head.dimensions;
    scores.resize(count * key_numbers(positions, 1));
    attend(AttentionJob<Number>{.head = head,
                                .positions = positions,
                                .queries = queries.data(),
                                .query_count = count,
                                .scale = scale,
                                .scores = scores.data(),
                                .out = out.data()});
}

template void store_key_value(const KvHead<std::uint16_t>&, std::size_t, std::span<const float>,
                              std::span<const float>);
template void store_key_value(const KvHead<float>&, std::size_t, std::span<const float>, std::span<const float>);
template void attend(const KvHead<std::uint16_t>&, std::size_t, std::span<const float>, float, std::vector<float>&,
                     std::span<float>);
template void attend(const KvHead<float>&, std::size_t, std::span<const float>, float, std::vector<float>&,
                     std::span<float>);

}  // namespace chaos::infer
