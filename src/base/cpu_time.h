// The CPU time that the calling thread has used: what others on the machine do does not count.
#pragma once

#include <time.h>
#include <cstdint>

namespace chaos {

[[nodiscard]] inline std::uint64_t thread_cpu_ns() {
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(used.tv_nsec);
}

}  // namespace chaos
