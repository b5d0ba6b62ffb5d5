// data/ turns files into samples and says in which order they are used. It knows no model and no LibTorch.
#pragma once

#include <cstdint>
#include <vector>

namespace chaos::data {

// What one sample looks like.
struct SampleShape {
    bool tokens = false;               // input: token ids instead of float values
    std::vector<std::int64_t> input;   // {context} of tokens; {channels, height, width} or {n} of values
    std::int64_t classes = 0;          // targets are in [0, classes): the vocabulary for text
    bool target_per_position = false;  // text: the next token at every position; otherwise one target a sample

    [[nodiscard]] std::int64_t input_elements() const {
        std::int64_t n = 1;
        for (const std::int64_t extent : input) n *= extent;
        return n;
    }
    [[nodiscard]] std::int64_t targets() const { return target_per_position ? input.front() : 1; }

    friend bool operator==(const SampleShape&, const SampleShape&) = default;
};

// Samples laid out one after the other. Exactly one of `values` and `tokens` is filled (see SampleShape::tokens).
struct Batch {
    std::int64_t count = 0;
    std::vector<float> values;           // count x input, row-major
    std::vector<std::int64_t> tokens;    // count x input
    std::vector<std::int64_t> targets;   // count x SampleShape::targets()
    std::vector<std::uint64_t> samples;  // each sample's number (see Dataset): the seed of its dropout
};

}  // namespace chaos::data
