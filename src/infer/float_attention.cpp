#include "infer/float_attention.h"

#include "base/assert.h"
#include "infer/elementwise.h"

#include <algorithm>
#include <array>

namespace chaos::infer {

void store_key_value(const FloatKvHead& head, std::size_t position, std::span<const float> key,
                     std::span<const float> value) {
    CHAOS_ASSERT(key.size() == head.dimensions && value.size() == head.dimensions);
    float* keys = head.keys + position / key_group * key_group * head.dimensions + position % key_group;
    for (std::size_t i = 0; i < head.dimensions; ++i) keys[i * key_group] = key[i];
    std::copy(value.begin(), value.end(), head.values + position * head.dimensions);
}

void attend(const FloatKvHead& head, std::size_t positions, std::span<const float> queries, float scale,
            std::vector<float>& scores, std::span<float> out) {
    CHAOS_ASSERT(positions > 0 && queries.size() % head.dimensions == 0 && out.size() == queries.size());
    scores.resize(key_halves(positions, 1));
    for (std::size_t query = 0; query < queries.size(); query += head.dimensions) {
        for (std::size_t first = 0; first < positions; first += key_group) {
            std::array<float, key_group> sums{};
            const float* keys = head.keys + first * head.dimensions;
            for (std::size_t i = 0; i < head.dimensions; ++i)
                for (std::size_t lane = 0; lane < key_group; ++lane)
                    sums[lane] += keys[i * key_group + lane] * queries[query + i];
            for (std::size_t lane = 0; lane < key_group; ++lane) scores[first + lane] = sums[lane] * scale;
        }
        softmax(std::span(scores).first(positions));
        const std::span<float> result = out.subspan(query, head.dimensions);
        std::fill(result.begin(), result.end(), 0.0F);
        for (std::size_t position = 0; position < positions; ++position) {
            const float* values = head.values + position * head.dimensions;
            for (std::size_t i = 0; i < head.dimensions; ++i) result[i] += values[i] * scores[position];
        }
    }
}

}  // namespace chaos::infer
