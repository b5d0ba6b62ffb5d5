// What benchmarks in the testbed share: processes that are this program again.
#pragma once

#include "base/result.h"
#include "testbed/testbed.h"

#include <cstdint>
#include <string>
#include <vector>

namespace chaos::bench {

inline constexpr std::uint16_t host_port = 4000;

// Starts this program again in a host: `--part NAME ARGUMENTS...`.
[[nodiscard]] Result<testbed::Process> spawn_part(const testbed::Testbed& box, const std::string& host,
                                                  const std::vector<std::string>& arguments);

// Waits for its end: what it printed, or an error with what it complained about.
[[nodiscard]] Result<std::string> output_of(testbed::Process& process);

}  // namespace chaos::bench
