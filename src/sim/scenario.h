// Scenarios: from a seed and a name to a cluster, its network, and a list of faults.
//
//   churn        nodes join, leave, crash and restart
//   partition    the network is divided and heals, hosts are cut off from each other
//   flashcrowd   many join at once
//   wan          links of 20 to 200 ms
//   liar         some send wrong shards, hashes and figures, vote twice, or garble messages; impostors ask to be let in
//   blackout     everybody goes down and comes up again
//   freeze       processes stand still and go on, clocks drift, nodes are slow
//   links        links are asked for and dropped
//   institutions institutions are admitted and removed, nodes revoked
//   lossy        messages are lost, doubled and overtaken
//   single       one failure, to time the recovery
//   calm         nothing goes wrong
//   mixed        each seed picks one of these, the policy, 2 to 40 nodes
#pragma once

#include "base/result.h"
#include "cluster/member.h"
#include "sim/faults.h"
#include "sim/network.h"
#include "sim/planner.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::sim {

// What the user fixes; the seed decides the rest.
struct Wishes {
    std::string scenario = "mixed";
    std::optional<Host> nodes;
    std::optional<bool> strict;
    std::optional<Time> duration;  // of the time in which faults happen
};

// A newcomer that has no right to be there.
enum class Impostor : std::uint8_t {
    none,
    foreign,  // vouched for by an institution that is not in; says that it is of one that is
    stolen,   // shows the credential of another node
    forged,   // made its credential itself
    replay,   // has got hold of the founder's join token
};

struct Setup {
    std::uint64_t seed = 0;
    std::string scenario;
    Host nodes = 0;  // at the start
    Host hosts = 0;  // with those that join later
    bool strict = false;
    bool prepared = false;  // begins as a cluster that was founded before, instead of joining one by one
    cluster::Options options;
    PathRanges paths;
    PlanKind plan = PlanKind::tree;
    bool brittle = false;  // an exchange does not survive the loss of a connection
    std::uint32_t batch = 64;
    std::vector<std::uint32_t> speeds;       // by host
    std::vector<std::uint8_t> institutions;  // by host
    std::vector<std::uint32_t> tokens;       // by host: the join token it has; 0: a certificate. Two may have one.
    std::vector<Impostor> impostors;         // by host
    std::vector<Fault> faults;               // by time
    Time quiet_at = 0;                       // from here on nothing goes wrong any more
};

[[nodiscard]] const std::vector<std::string_view>& scenario_names();
[[nodiscard]] Result<Setup> make_setup(std::uint64_t seed, const Wishes& wishes);

}  // namespace chaos::sim
