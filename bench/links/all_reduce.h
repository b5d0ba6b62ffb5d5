// All-reduce on one machine: several processes, each with links to all others, against Gloo's ring in the same
// processes, in turn.
#pragma once

#include <cstddef>

namespace chaos::bench {

struct AllReduceFigures {
    double chaos_s = 0;  // per all-reduce, the median of the rounds
    double gloo_s = 0;
};

[[nodiscard]] AllReduceFigures compare_all_reduce(unsigned processes, std::size_t floats, bool tls, unsigned rounds,
                                                  unsigned repeats);

}  // namespace chaos::bench
