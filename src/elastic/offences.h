// Who makes steps worthless time and again. A contribution that is of no use costs the others a step (tally.h says when
// one is an offence); once may be bad luck, a broken machine does it over and over. It is expelled for good: pulling
// the state again, as one whose state went astray does, would not mend what computes.
//
// Counted from the results of steps, which all have alike: whoever took part in the same steps comes to the same.
#pragma once

#include "cluster/member.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

namespace chaos::elastic {

class Offences {
public:
    static constexpr std::size_t allowed = 2;  // of the last cluster::offence_steps; one more is one too many

    // Each step in order, with the members whose fault it was that it was left out, of how many. Of these, those who
    // are repeat offenders now. None, where more than half of the members offended in turn: then the run is sick, and
    // not a machine.
    [[nodiscard]] std::vector<cluster::NodeId> add(std::uint64_t step, std::span<const cluster::NodeId> offenders,
                                                   std::size_t members);

private:
    std::deque<std::pair<std::uint64_t, cluster::NodeId>> last_;  // step, offender
};

}  // namespace chaos::elastic
