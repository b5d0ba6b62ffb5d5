#include "elastic/claims.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace chaos::elastic {

void Claims::settled(NodeId donor, std::uint64_t applied, const cluster::Name& lineage, Clock::time_point now) {
    reached(donor, applied, now);
    std::map<std::uint64_t, cluster::Name>& lineages = of_[donor].lineages;
    lineages.insert_or_assign(applied, lineage);
    if (lineages.size() > kept_of_each) lineages.erase(lineages.begin());
}

void Claims::reached(NodeId donor, std::uint64_t applied, Clock::time_point now) {
    Claim& claim = of_[donor];
    claim.applied = std::max(claim.applied, applied);
    claim.heard = now;
}

std::optional<cluster::Name> Claims::lineage_after(std::uint64_t applied, std::span<const NodeId> donors) const {
    std::map<cluster::Name, std::size_t> named;
    for (const NodeId donor : donors) {
        const auto claim = of_.find(donor);
        if (claim == of_.end()) continue;
        if (const auto at = claim->second.lineages.find(applied); at != claim->second.lineages.end())
            ++named[at->second];
    }
    for (const auto& [lineage, count] : named)
        if (2 * count > donors.size()) return lineage;
    return std::nullopt;
}

std::uint64_t Claims::reached_by_most(std::span<const NodeId> donors) const {
    if (donors.empty()) return 0;
    std::vector<std::uint64_t> applied;
    for (const NodeId donor : donors) {
        const auto claim = of_.find(donor);
        applied.push_back(claim == of_.end() ? 0 : claim->second.applied);
    }
    std::ranges::sort(applied, std::greater());
    return applied[applied.size() / 2];
}

bool Claims::most_are_behind(std::uint64_t applied, Clock::time_point since, std::span<const NodeId> donors) const {
    const auto behind = static_cast<std::size_t>(std::ranges::count_if(donors, [&](NodeId donor) {
        const auto claim = of_.find(donor);
        return claim != of_.end() && claim->second.heard > since && claim->second.applied < applied &&
               applied - claim->second.applied > most_apart_steps;
    }));
    return 2 * behind > donors.size();
}

}  // namespace chaos::elastic
