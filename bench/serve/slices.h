// A model divided among members as evenly as its units allow.
#pragma once

#include "infer/slice.h"

#include <cstddef>
#include <vector>

namespace chaos::bench {

[[nodiscard]] inline std::vector<infer::Slice> even_slices(const infer::Config& config, std::size_t members) {
    const auto count = static_cast<std::int64_t>(members);
    const auto part = [&](std::int64_t all, std::int64_t unit, std::int64_t place) {
        const std::int64_t units = (all + unit - 1) / unit;
        const std::int64_t first = units * place / count * unit;
        const std::int64_t end = units * (place + 1) / count * unit;
        return infer::Extent{first, (end < all ? end : all) - first};
    };
    std::vector<infer::Slice> slices;
    for (std::int64_t place = 0; place < count; ++place)
        slices.push_back({part(config.heads, infer::head_unit(config), place),
                          part(config.ffn, infer::ffn_unit(config), place), part(config.vocab, 1, place)});
    return slices;
}

}  // namespace chaos::bench
