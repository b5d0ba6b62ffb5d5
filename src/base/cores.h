// How much of the machine this process may compute with.
#pragma once

namespace chaos {

// Cores, by its affinity and the quota of its control group, which need not be a whole number.
[[nodiscard]] double cores_of_this_process();

}  // namespace chaos
