// One node of a trial, in a process of its own in a host of the testbed. It prints what happens, a line each:
//
//   applied STEP LINEAGE AT        a step is applied; the state's lineage then; nanoseconds of the machine's clock
//   view COMMITTED AT              a view was adopted, after so many committed steps
//   down AT                        a link is gone
//   wrong STEP                     a result was not what it must be
//   note TEXT
#pragma once

#include <string>
#include <vector>

namespace chaos::bench {

// NUMBER, FOLDER, then every node's address. Runs until it is killed.
int run_node(const std::vector<std::string>& arguments);

}  // namespace chaos::bench
