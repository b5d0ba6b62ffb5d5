// How near the whole engine comes to what the machine can do, with all that lies between products and the attention
// over the tokens before: a token at positions 128 and 2048 against reading its weights, keys and values as fast as
// memory gives them, and a prompt of 128 tokens against multiplying as fast as a core can.
#pragma once

#include "base/result.h"
#include "findings.h"

namespace chaos::bench {

[[nodiscard]] Result<void> measure_engine(bool quick, Findings& findings);

}  // namespace chaos::bench
