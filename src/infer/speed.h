// How fast this machine multiplies weights, from a short measurement: what a division of a model between unequal
// machines is made by (plan/tensor_plan.h).
#pragma once

#include "base/result.h"
#include "infer/packing.h"
#include "infer/pool.h"

#include <cstdint>
#include <span>

namespace chaos::infer {

struct Speed {
    std::uint64_t weight_bytes_per_s = 0;  // for one token
    std::uint64_t prompt_bytes_per_s = 0;  // for many: bytes times tokens
    std::uint64_t call_ns = 0;             // of a product of next to nothing: threads that wake
};

// With weights like the largest of these matrices, no more than the model has of them and no more than some MB: those
// of a small model stay in the processor's caches, those of a large one do not. Takes a quarter of a second.
[[nodiscard]] Result<Speed> measure_speed(std::span<const PackedTensor> tensors, Pool& pool);

}  // namespace chaos::infer
