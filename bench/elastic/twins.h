// Nodes that have to share: what a step of two costs beyond what it must, and how soon eight train together.
//
// Two nodes, one core and a fast link between them (hosts of the testbed). Alone, each trains with half the batch while
// the other does the same; together they train with the whole batch. At best, the all-reduce hides behind the backward
// pass, or the other way round, and only the CPU time that it takes is added:
//
//   max(a step alone beside a busy twin, Gloo's all-reduce of as many bytes) + the communication's own CPU
//
// which is what a node uses per step together and not alone, as the time that takes within the host's quota. A
// small batch leaves the all-reduce hardly more time than it needs. Where Gloo was not found when this was built, its
// time is missing in the table, and so are the figures.
//
// Eight nodes on this machine, started at once: until all have done a step that all take part in, compared with 1.3 x
// the time of eight that train each on its own, until the last one's first step, and a second.
#pragma once

#include "base/result.h"
#include "report.h"
#include "wish.h"

#include <vector>

namespace chaos::bench {

[[nodiscard]] Result<Table> measure_twins(const Wish& wish, std::vector<Figure>& figures);

}  // namespace chaos::bench
