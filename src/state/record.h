// The step record: what one committed step was, in numbers. Records form a hash chain, the lineage of the state: two
// states with one lineage went through the same steps. A blank or foreign lineage never overwrites a trained one.
#pragma once

#include "base/hash.h"
#include "state/update.h"

#include <cstdint>

namespace chaos::state {

struct StepRecord {
    std::uint64_t step = 0;  // the update's number; the first is 0
    Digest view{};           // the view it was committed under; zero when training alone
    std::uint64_t pass = 0;  // the data position of the first sample
    std::uint64_t index = 0;
    std::uint64_t samples = 0;
    UpdateScalars scalars;
    double norm = 0.0;  // of the gradient, before clipping
    double loss = 0.0;
    std::uint64_t result_hash = 0;  // XXH3 of R(s)
};

// The lineage after `record` was applied to a state of lineage `before`. The first lineage of a run is its hash.
[[nodiscard]] Digest extend_lineage(const Digest& before, const StepRecord& record);

}  // namespace chaos::state
