// Who has which slice of a model: a pure function of what the members can do.
#pragma once

#include "infer/config.h"
#include "infer/slice.h"

#include <cstdint>
#include <span>
#include <vector>

namespace chaos::tensor {

struct Ability {
    std::uint64_t weight_bytes_per_s = 0;  // 0: not known
};

// One slice for each, in their order.
[[nodiscard]] std::vector<infer::Slice> divide(const infer::Config& config, std::span<const Ability> members);

}  // namespace chaos::tensor
