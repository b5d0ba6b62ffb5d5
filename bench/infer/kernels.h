// How near the kernels come to what the machine can do: reading weights as fast as memory gives them, multiplying as
// fast as a core can; several sequences at once, and two threads beside a process that uses a core.
#pragma once

#include "base/result.h"
#include "findings.h"

namespace chaos::bench {

[[nodiscard]] Result<void> measure_kernels(bool quick, Findings& findings);

}  // namespace chaos::bench
