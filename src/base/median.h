// The middle of some values: half of them are smaller, half larger. What is out of the ordinary does not move it.
#pragma once

#include "base/assert.h"

#include <algorithm>
#include <cstddef>
#include <ranges>
#include <vector>

namespace chaos {

// Of one at least; of an even number, the larger of the two in the middle.
template <std::ranges::input_range Values>
[[nodiscard]] auto median(const Values& values) {
    std::vector<std::ranges::range_value_t<Values>> sorted(std::ranges::begin(values), std::ranges::end(values));
    CHAOS_ASSERT(!sorted.empty());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::ranges::nth_element(sorted, middle);
    return *middle;
}

}  // namespace chaos
