// What data.held_out means: below 1 a share, from 1 on a number of samples, 0 for none.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>

namespace chaos::data {

// Refuses what is neither a share nor a whole number of samples.
[[nodiscard]] Result<void> check_held_out(double held_out);

// `share`, which is below 1, of `items`, rounded to the nearest: 0.29 of 100 is 29 although 0.29 * 100 is not.
[[nodiscard]] std::uint64_t share_of(double share, std::uint64_t items);

// How many of `samples` are held out, where samples are cut off whole. Something is left to train on, and
// something is held out unless `held_out` is 0.
[[nodiscard]] Result<std::uint64_t> held_out_of(double held_out, std::uint64_t samples);

// "data.held_out = 0.1", for errors.
[[nodiscard]] std::string held_out_text(double held_out);

}  // namespace chaos::data
