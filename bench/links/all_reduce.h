// All-reduce on one machine: several processes, each with links to all others, against Gloo's ring in the same
// processes, in turn. Both leave the summands as they are, and every sum is checked bit by bit.
#pragma once

#include <cstddef>
#include <string>

namespace chaos::bench {

struct AllReduceFigures {
    double chaos_s = 0;  // per all-reduce, the median of the rounds
    double gloo_s = 0;
    std::string shape;  // of our plan
};

// `tls`: ours; Gloo's is without in any case.
[[nodiscard]] AllReduceFigures compare_all_reduce(unsigned processes, std::size_t floats, bool tls, unsigned rounds,
                                                  unsigned repeats);

// Bytes that reach one process in an all-reduce as fp32, divided by those as int8.
[[nodiscard]] double int8_bytes_ratio(std::size_t floats);

}  // namespace chaos::bench
