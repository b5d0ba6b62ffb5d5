// What planned events and failures cost nodes that train: CPU time to handle them, and the steps that they fall into.
#pragma once

#include "base/result.h"
#include "report.h"

#include <vector>

namespace chaos::bench {

[[nodiscard]] Result<Table> measure_events(bool quick, std::vector<Figure>& figures);

}  // namespace chaos::bench
