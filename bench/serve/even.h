// A model divided evenly, whatever its members can do.
#pragma once

#include "infer/slice.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace chaos::bench {

inline std::vector<infer::Slice> divide_evenly(const infer::Config& config, std::size_t members) {
    const auto part = [&](std::int64_t all, std::int64_t unit, std::size_t place) {
        const std::int64_t units = (all + unit - 1) / unit;
        const auto at = [&](std::size_t i) {
            const auto share = units * static_cast<std::int64_t>(i) / static_cast<std::int64_t>(members);
            return std::min(share * unit, all);
        };
        return infer::Extent{.first = at(place), .count = at(place + 1) - at(place)};
    };
    std::vector<infer::Slice> slices;
    for (std::size_t i = 0; i < members; ++i)
        slices.push_back({.heads = part(config.heads, infer::head_unit(config), i),
                          .ffn = part(config.ffn, infer::ffn_unit(config), i),
                          .vocab = part(config.vocab, 1, i)});
    return slices;
}

}  // namespace chaos::bench
