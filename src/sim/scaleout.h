// Scale-out, as this project does it and as others do, on the same wires and under the same fault: what one join costs
// at sizes no test machine has. Read flows.h first; comparison.h makes the table.
//
// A setting is a cluster of members that train in steps (compute, then exchange gradients by the sync plan), joiners
// that ask to be let in somewhere inside a step, and a store that some strategies need. A strategy moves the whole
// state to each joiner:
//
//   rolling       ours: shards from all members at once while training goes on, results following (DESIGN.md, A join)
//   elan          all stop at a step's end; the best single member sends; several joiners copy from different members
//   edl           all stop at a step's end; one random member sends to a joiner
//   pccl          all stop at a step's end; one designated member sends to all joiners; whole variables that arrived
//                 are kept when it dies
//   torchft       members compute one more step meanwhile, then wait; donors are taken in turn
//   autoscaling   the joiner first computes one batch alone; all stop; members split the variables evenly by count and
//                 an allgather brings all of them to everyone, straight from each to each
//   autoscaling_ring   the same with the allgather around the ring of ranks, as Horovod's libraries do it
//   pollux        all stop; member 0 writes to the store; everybody, joiner or not, reads everything back
//   pollux_full   the same with the wait for the scheduler's next round and the restart of every process
#pragma once

#include "sim/flows.h"
#include "sim/models.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace chaos::sim {

enum class Strategy : std::uint8_t {
    rolling,
    elan,
    edl,
    pccl,
    torchft,
    autoscaling,
    autoscaling_ring,
    pollux,
    pollux_full
};
inline constexpr std::array all_strategies = {Strategy::rolling,
                                              Strategy::elan,
                                              Strategy::edl,
                                              Strategy::pccl,
                                              Strategy::torchft,
                                              Strategy::autoscaling,
                                              Strategy::autoscaling_ring,
                                              Strategy::pollux,
                                              Strategy::pollux_full};
[[nodiscard]] std::string_view title_of(Strategy strategy);

// What a step of the members is made of.
struct Rhythm {
    Time compute = 0;
    Bundle exchange;          // what the links carry per step; no bytes: a member alone
    Time fill = 0;            // of the exchange's pipelines: delays and first chunks
    Time exchange_alone = 0;  // the exchange with nothing else on the wires, fill included

    [[nodiscard]] Time step() const { return compute + exchange_alone; }
};

// Hosts are numbered: members first, then joiners, then the store.
struct Setting {
    Wiring wiring;
    Host members = 0;
    Host joiners = 0;
    std::vector<std::uint64_t> variables;  // of the state, moments included
    std::uint64_t state_bytes = 0;
    std::uint64_t result_bytes = 0;  // R(s), and a gradient: the parameters alone
    Rhythm rhythm;
    Time requested_at = 0;  // within the first step, which begins at 0
    std::uint64_t seed = 0;

    [[nodiscard]] Host joiner(Host index) const { return members + index; }
    [[nodiscard]] Host store() const { return members + joiners; }
};

inline constexpr std::uint64_t copies_in_state = 3;  // parameters and the two moments of AdamW

struct Draw {  // what a setting is drawn from
    std::uint64_t seed = 0;
    Host members = 4;
    Host joiners = 1;
    std::uint64_t card_bytes_per_s = 125'000'000;
    Time compute = 1 * second;  // per step
};
// Rates and delays depend on the seed and the pair of hosts alone: a larger cluster contains the smaller one, and every
// model meets the same links.
[[nodiscard]] Setting draw_setting(const Draw& draw, const Model& model);

// The rhythm of these members (all but `without`, if given), their exchange planned by plan_sync.
[[nodiscard]] Rhythm plan_rhythm(const Setting& setting, Time compute, std::optional<Host> without = std::nullopt);

// What nobody can beat without joiners helping each other: state / min(ingress, sum of donor rates), or all that is
// asked for / what all donors can send, + one round trip.
[[nodiscard]] Time limit_of(const Setting& setting);

// A donor's process ends; its host closes the connections.
struct DonorFault {
    Time at = 0;
    Host member = 0;
};

struct ScaleOut {
    Time delay = 0;          // join request sent -> state verified, of the last joiner
    Time members_idle = 0;   // node-time that members lose against undisturbed steps; of those that survive
    Time joiners_idle = 0;   // node-time from the request to the first step contributed to
    DonorFault worst_fault;  // the donor that matters most, in the middle of the transfer
};

[[nodiscard]] ScaleOut scale_out(Strategy strategy, const Setting& setting,
                                 const std::optional<DonorFault>& fault = std::nullopt);

// Round trips, each as slow as the slowest pair, before the first byte is asked for. Ours: TCP, TLS, hello, agreement
// on the view, links. Others: TCP, request to the coordinator, its word to the members.
inline constexpr Time rolling_set_up_round_trips = 5;
inline constexpr Time others_set_up_round_trips = 3;

inline constexpr Time scheduler_period = 60 * second;  // Pollux
inline constexpr Time process_restart = 30 * second;   // its paper: 15 to 120 s

// The slowest delay between two hosts that are members or joiners.
[[nodiscard]] Time slowest_delay(const Setting& setting);

}  // namespace chaos::sim
