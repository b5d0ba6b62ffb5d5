// How long a newcomer needs for the state of a quiet cluster, from its request to be let in until the state is
// verified, against what the network carries: the state's bytes over what iperf3 gets through from the same donors at
// once, right before.
#pragma once

#include "base/result.h"
#include "report.h"
#include "wish.h"

#include <vector>

namespace chaos::bench {

[[nodiscard]] Result<Table> measure_scale_out(const Wish& wish, std::vector<Figure>& figures);

}  // namespace chaos::bench
