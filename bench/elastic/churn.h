// Nodes that come and go do not change what is learnt: losses under heavy churn beside those of one undisturbed
// process, with real models.
#pragma once

#include "base/result.h"
#include "report.h"

#include <vector>

namespace chaos::bench {

[[nodiscard]] Result<Table> measure_churn(bool quick, std::vector<Figure>& figures);

}  // namespace chaos::bench
