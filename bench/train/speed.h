// How fast `chaos train` takes a step, next to the plain loop in the same process and the same minutes.
#pragma once

#include "base/result.h"
#include "plain_library.h"

namespace chaos::bench {

struct Speed {
    double chaos_samples_per_s = 0.0;  // from the median of the steps' times
    double plain_samples_per_s = 0.0;

    [[nodiscard]] double ratio() const { return chaos_samples_per_s / plain_samples_per_s; }
};

// First shows that both compute the same: from equal parameters, on equal batches, they must report equal losses,
// else it is an Error. Then measures that many pairs of steps, one of each side, the first one alternating.
[[nodiscard]] Result<Speed> measure_speed(const PlainLibrary& library, const run::Run& run, int pairs);

}  // namespace chaos::bench
