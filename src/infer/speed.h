// How fast this machine multiplies weights, from a short measurement: what a division of a model between unequal
// machines is made by (plan/tensor_plan.h).
#pragma once

#include "base/result.h"
#include "infer/packing.h"
#include "infer/pool.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace chaos::infer {

struct Speed {
    std::uint64_t weight_bytes_per_s = 0;  // for one token, while it computes
    std::uint64_t prompt_bytes_per_s = 0;  // for many: bytes times tokens
    std::uint64_t call_ns = 0;             // of a product of next to nothing: threads that wake
    // Thousandths of the time that it computes, where it always has something to: less under a quota.
    std::uint64_t share_permille = 1000;
};

// Of something that usually takes so long and so long in the mean, the share of the time in which it is computed; the
// mean times that share is what computing takes. A quota makes who computes stand still, and no longer than it says
// (`allowed`: the share it leaves). Whatever else makes the mean long are others who compute on this machine: they slow
// what is computed, and who waits meanwhile is not spared them.
[[nodiscard]] std::uint64_t share_permille(double usual_s, double mean_s, double allowed);
// The share that this process's quota leaves to so many threads.
[[nodiscard]] double allowed_share(std::size_t threads);

// With weights like the largest of these matrices, as many bytes as the model has, but no more than `most_bytes`: those
// of a small model stay in the processor's caches, those of a large one do not. Takes half a second.
inline constexpr std::uint64_t enough_to_measure_bytes = std::uint64_t{96} << 20;
[[nodiscard]] Result<Speed> measure_speed(std::span<const PackedTensor> tensors, Pool& pool,
                                          std::uint64_t most_bytes = enough_to_measure_bytes);

}  // namespace chaos::infer
