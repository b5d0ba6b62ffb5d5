// Attention over keys and values that are kept as floats, for who measures a model rather than serves it: twice the
// memory of attention.h's, and no rounding. The layout and the order of sums are the same; products are rounded before
// they are added, which every instruction set does alike.
#pragma once

#include "infer/attention.h"

#include <cstddef>
#include <span>
#include <vector>

namespace chaos::infer {

struct FloatKvHead {
    float* keys = nullptr;    // key_halves(positions, dimensions) of them; all zeros at first
    float* values = nullptr;  // positions * dimensions
    std::size_t dimensions = 0;
};

void store_key_value(const FloatKvHead& head, std::size_t position, std::span<const float> key,
                     std::span<const float> value);

void attend(const FloatKvHead& head, std::size_t positions, std::span<const float> queries, float scale,
            std::vector<float>& scores, std::span<float> out);

}  // namespace chaos::infer
