// A join while the others train: what it costs them, and what it costs in all.
//
// The members' stall: how much longer their steps are between the joiner's request and its verified state than before,
// as a share of the steps' time; joins for which it costs less that all wait are left out of that. Node-seconds lost:
// the members' stall, and the joiner's waiting. With the state's bytes S, a result's R, a step's time T and what iperf3
// carries to the joiner B, n members would lose
//
//   stop and copy    (n + 1) S / B             everybody waits until the state is copied
//   zero stall       -(T S / R) ln(1 - R / (B T))    only the joiner waits; what it holds has to be kept up to date,
//                                              which takes R / T of B in the end (never done where B T <= R)
//
// and the better of the two is what the join is compared with.
#pragma once

#include "base/result.h"
#include "report.h"
#include "wish.h"

#include <vector>

namespace chaos::bench {

[[nodiscard]] Result<Table> measure_stall(const Wish& wish, std::vector<Figure>& figures);

}  // namespace chaos::bench
