// Attention of queries over the cached keys and values of one KV head, kept as f16, or as f32 by who measures a model
// rather than serves it: twice the memory, and no rounding.
//
// Keys lie in groups of 16 positions, so that a kernel's lanes are positions: dimension 0 of positions 0..15, dimension
// 1 of positions 0..15, ...; values lie position by position. A score is summed in the order of dimensions, a result in
// the order of positions, from 0 on with fused multiply-adds; the softmax between is elementwise.h's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chaos::infer {

inline constexpr std::size_t key_group = 16;

// A number is a float, or the 16 bits of an f16.
template <class Number>
struct KvHead {
    Number* keys = nullptr;    // key_numbers(positions, dimensions); aligned to 32 bytes, all zeros at first
    Number* values = nullptr;  // positions * dimensions
    std::size_t dimensions = 0;
};

// Room for the keys of so many positions.
[[nodiscard]] constexpr std::size_t key_numbers(std::size_t positions, std::size_t dimensions) {
    return (positions + key_group - 1) / key_group * key_group * dimensions;
}

template <class Number>
void store_key_value(const KvHead<Number>& head, std::size_t position, std::span<const float> key,
                     std::span<const float> value);

// The queries that share the KV head, one after the other, see positions [0, positions); scale multiplies scores.
// `scores` is scratch memory, one per thread.
template <class Number>
void attend(const KvHead<Number>& head, std::size_t positions, std::span<const float> queries, float scale,
            std::vector<float>& scores, std::span<float> out);

extern template void store_key_value(const KvHead<std::uint16_t>&, std::size_t, std::span<const float>,
                                     std::span<const float>);
extern template void store_key_value(const KvHead<float>&, std::size_t, std::span<const float>, std::span<const float>);
extern template void attend(const KvHead<std::uint16_t>&, std::size_t, std::span<const float>, float,
                            std::vector<float>&, std::span<float>);
extern template void attend(const KvHead<float>&, std::size_t, std::span<const float>, float, std::vector<float>&,
                            std::span<float>);

}  // namespace chaos::infer
