// One trial: a few nodes sum gradients over shaped links, something goes wrong at a random moment, and the survivors
// must finish the step, all with the same bits.
#pragma once

#include "base/result.h"
#include "testbed/testbed.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace chaos::bench {

enum class FaultKind : std::uint8_t {
    crash,      // a process ends
    freeze,     // a process stands still, its connections stay
    blackhole,  // nothing passes to or from a host any more; nobody is told
    one_way,    // nothing passes from one host to one other
};
[[nodiscard]] std::string name_of(FaultKind kind);

inline constexpr unsigned nodes_per_trial = 4;

struct TrialFigures {
    double detection_s = 0.0;  // from the fault until the first survivor gives up a link
    double result_s = 0.0;     // ... until the last survivor has the result of a step of the view after it
};

[[nodiscard]] Result<testbed::Testbed> trial_testbed();
// An error: the survivors did not finish, or not alike. `seed` decides the victim and the moment.
[[nodiscard]] Result<TrialFigures> run_trial(testbed::Testbed& box, FaultKind kind, std::uint64_t seed);

// Nothing goes wrong, but every core has twice as much to do as it can, for so long: how many links are given up.
[[nodiscard]] Result<unsigned> count_false_alarms(testbed::Testbed& box, std::chrono::seconds duration);

}  // namespace chaos::bench
