// Six hosts whose pairs have links of very different rates, in the testbed: an all-reduce under the sync plan for these
// rates, against the same engine on a ring in order of number and on a random spanning tree, in the same processes.
#pragma once

#include "report.h"

#include "base/result.h"

#include <string>
#include <vector>

namespace chaos::bench {

// hetero_vs_ring and hetero_vs_tree: how many times faster, hetero_vs_bound: how many times the planner's lower bound
// it takes; the median over the seeds and, as ..._worst, the worst. hetero_cpu: the busiest share of the machine.
[[nodiscard]] Result<Table> compare_plans(bool quick, std::vector<Figure>& figures);

// See play_shaped: the arguments after "--part hetero".
[[nodiscard]] int play_hetero(const std::vector<std::string>& arguments);

}  // namespace chaos::bench
