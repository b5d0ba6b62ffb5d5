// What a budget of memory costs: the program itself generates with half, a quarter and an eighth of the weights' size,
// and its peak of resident memory and time per token are held against the budget and against the longer of computing
// with all weights in memory and reading what is streamed as fast as the disk gives it.
#pragma once

#include "base/result.h"
#include "findings.h"

namespace chaos::bench {

[[nodiscard]] Result<void> measure_window(bool quick, Findings& findings);

}  // namespace chaos::bench
