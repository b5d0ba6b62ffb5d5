// What a server with its usual settings gives to several clients at once that all stream texts of the same length:
// tokens per second in total against what one client gets; and how evenly 32 clients share them that ask for one text
// after the other, most of whom wait for their turn at any time.
#pragma once

#include "base/result.h"
#include "findings.h"

namespace chaos::bench {

[[nodiscard]] Result<void> measure_clients(bool quick, Findings& findings);

}  // namespace chaos::bench
