#include "elastic/offences.h"

#include <algorithm>
#include <map>

namespace chaos::elastic {

std::vector<cluster::NodeId> Offences::add(std::uint64_t step, std::span<const cluster::NodeId> offenders,
                                           std::size_t members) {
    for (const cluster::NodeId node : offenders) last_.emplace_back(step, node);
    while (!last_.empty() && last_.front().first + cluster::offence_steps <= step) last_.pop_front();
    std::map<cluster::NodeId, std::size_t> counts;
    for (const auto& [at, node] : last_) ++counts[node];
    std::vector<cluster::NodeId> repeated;
    if (2 * counts.size() > members) return repeated;
    for (const cluster::NodeId node : offenders)
        if (counts[node] > allowed) repeated.push_back(node);
    return repeated;
}

}  // namespace chaos::elastic
