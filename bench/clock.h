// The time that benchmarks take.
#pragma once

#include <chrono>

namespace chaos::bench {

// Of a steady clock.
inline double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace chaos::bench
