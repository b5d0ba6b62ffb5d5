// Under `strict`, a side without a quorum waits. Where those who are missing are lost for good, a person says so
// (RecoverCommand): then it goes on as a fork, as it would by itself under `continue`.
#include "cluster/state.h"

#include <algorithm>

namespace chaos::cluster {

// Active members of the tip that could take part in a decision now, as far as is known. Sorted.
std::vector<NodeId> Member::State::seats_here() const {
    std::vector<NodeId> here{self()};
    if (role == Role::active)
        for (const NodeId node : reachable_from(tip(), self(), down_links())) here.push_back(node);
    // Seats of those who came back vote, too.
    for (const auto& [peer, connection] : connections)
        if (connection.greeted && connection.role == Role::returning) here.push_back(peer);
    std::erase_if(here, [&](NodeId node) { return !tip().is_active(node); });
    std::ranges::sort(here);
    here.erase(std::unique(here.begin(), here.end()), here.end());
    return here;
}

bool Member::State::a_member_runs() const {
    return std::ranges::any_of(connections, [&](const auto& entry) {
        return entry.second.role == Role::active && tip().has(entry.second.member);
    });
}

Result<Recovery> Member::State::recovery() const {
    if (line.empty() || role == Role::outside || role == Role::joining)
        return Error{"this node is not a member of a cluster, so there is nothing that it could recover"};
    if (!tip().strict)
        return Error{
            "nobody has to force this: the policy of this cluster is continue, so that a side without a "
            "quorum goes on by itself after some time"};
    if (!votes())
        return Error{"this node is not an active member, and has no say in how its cluster goes on; ask one that is"};
    if (role == Role::returning && a_member_runs())
        return Error{"there is nothing to recover: a member of view " + brief(tip().name) +
                     " still runs, and this node joins it"};
    const std::vector<NodeId> here = seats_here();
    if (is_quorum(tip(), here))
        return Error{"there is nothing to recover: " + std::to_string(here.size()) + " of the " +
                     std::to_string(tip().active_count()) + " active members of view " + brief(tip().name) +
                     " are reached, and that is a quorum"};
    Recovery recovery{.view = line.tip(), .here = here, .lost = {}, .founds = role == Role::returning, .applied = 0};
    for (const NodeId node : tip().by_standing())
        if (!std::ranges::binary_search(here, node)) recovery.lost.push_back(node);
    recovery.applied = role == Role::returning ? (checkpoint ? checkpoint->applied : 0) : applied;
    return recovery;
}

std::string Member::State::too_few() const {
    return "only " + std::to_string(seats_here().size()) + " of " + std::to_string(tip().active_count()) +
           " active members are here: no quorum, and the policy is strict; waits for more of them";
}

// Whether a person said that no quorum of the tip will come.
bool Member::State::forced() const {
    return !line.empty() && forced_from == tip().name;
}

void Member::State::recover() {
    if (const Result<Recovery> possible = recovery(); !possible)
        return note("not possible: " + possible.error().message);
    note("was told that no quorum of view " + brief(tip().name) + " will come back; asks those that are here to fork");
    forced_from = tip().name;
    if (proposal && proposal->flush && !proposal->accepting) return advance();
    proposal.reset();
    prepare(true);
}

}  // namespace chaos::cluster
