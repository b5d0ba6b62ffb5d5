// The order of samples: a pseudo-random permutation per (seed, pass) that is computed, not stored. Any worker can
// ask for any part of any pass, so the data position of a run is two integers and nothing has to be replayed.
#pragma once

#include <cstdint>
#include <vector>

namespace chaos::data {

struct Position {
    std::uint64_t pass = 0;
    std::uint64_t index = 0;  // samples of this pass already used

    friend bool operator==(const Position&, const Position&) = default;
};

// The number of the sample at place `index` of pass `pass`: for fixed seed and pass a permutation of [0, samples).
[[nodiscard]] std::uint64_t sample_at(std::uint64_t seed, std::uint64_t pass, std::uint64_t index,
                                      std::uint64_t samples);

// Position `count` samples later. A pass ends when fewer than one sample is left: batches run across the boundary,
// so every sample of a pass is used exactly once.
[[nodiscard]] Position advance(Position position, std::uint64_t count, std::uint64_t samples);

// The samples of [position, position + count), split where a pass ends.
struct Stretch {
    std::uint64_t pass = 0;
    std::vector<std::uint64_t> numbers;
};
[[nodiscard]] std::vector<Stretch> samples_from(std::uint64_t seed, Position position, std::uint64_t count,
                                                std::uint64_t samples);

}  // namespace chaos::data
