// The families of strategies behind scale_out(), one file each.
#pragma once

#include "sim/scaleout.h"

namespace chaos::sim {

// While training goes on, gradients keep at least three quarters of a card that is short, and what a member sends to
// joiners keeps at least one quarter.
inline constexpr std::uint32_t state_weight = 1U << 16;
inline constexpr std::uint32_t exchange_weight = 3 * state_weight;

// Ours (scaleout_rolling.cpp).
[[nodiscard]] ScaleOut roll_shards(const Setting& setting, const std::optional<DonorFault>& fault);

// All stop and copy (scaleout_baselines.cpp).
[[nodiscard]] ScaleOut copy_from_one(Strategy strategy, const Setting& setting, const std::optional<DonorFault>& fault);
[[nodiscard]] ScaleOut gather_variables(Strategy strategy, const Setting& setting,
                                        const std::optional<DonorFault>& fault);
[[nodiscard]] ScaleOut restart_from_store(Strategy strategy, const Setting& setting,
                                          const std::optional<DonorFault>& fault);

}  // namespace chaos::sim
