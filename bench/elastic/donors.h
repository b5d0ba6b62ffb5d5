// A donor is killed, stands still, or its link to the joiner is cut while it gives: does the joiner always get the
// whole state, and how much more comes in than what it needs: the state, and the results of steps meanwhile.
#pragma once

#include "base/result.h"
#include "report.h"
#include "wish.h"

#include <vector>

namespace chaos::bench {

[[nodiscard]] Result<Table> measure_lost_donors(const Wish& wish, std::vector<Figure>& figures);

}  // namespace chaos::bench
