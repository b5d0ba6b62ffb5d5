// The learning rate of each step, from the step's number alone. No libm: its cosine and power differ between
// machines, and a learning rate must not.
#pragma once

#include "run/run.h"

#include <cstdint>

namespace chaos::state {

// The rate for update number `step` (the first is 0) of `steps`: linear warm-up from 1/warmup to 1, then constant or
// a cosine down to final_ratio, times the optimizer's learning rate.
[[nodiscard]] double learning_rate(const run::Schedule& schedule, double largest, std::uint64_t step,
                                   std::uint64_t steps);

// cos(pi * x) for x in [0, 1], within 1e-15, from + - x only.
[[nodiscard]] double cosine_of_pi(double x);

// base^exponent by repeated squaring.
[[nodiscard]] double power(double base, std::uint64_t exponent);

}  // namespace chaos::state
