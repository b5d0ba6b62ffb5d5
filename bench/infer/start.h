// How long one waits for a model: from the start of the program to the first token it prints, with a model of 600 MB
// whose file the system has in its cache.
#pragma once

#include "base/result.h"
#include "findings.h"

namespace chaos::bench {

[[nodiscard]] Result<void> measure_start(bool quick, Findings& findings);

}  // namespace chaos::bench
