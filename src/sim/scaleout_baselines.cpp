// What others do: everybody stops at a step's end, the state is moved, a round trip tells all that it is there, and
// training goes on with the joiners. The strategies differ in who sends what to whom.
#include "sim/scaleout_strategies.h"

#include "base/assert.h"
#include "base/random.h"
#include "plan/integers.h"

#include <algorithm>
#include <numeric>

namespace chaos::sim {
namespace {

enum BaselineStream : std::uint64_t { edl_donor = 16, pollux_wait };

Time round_trip(const Setting& setting) {
    return 2 * slowest_delay(setting);
}

Time next_boundary(const Setting& setting, Time at) {
    const Time step = setting.rhythm.step();
    return (at + step - 1) / step * step;
}

std::vector<Host> alive_members(const Setting& setting, const std::optional<DonorFault>& fault) {
    std::vector<Host> alive(setting.members);
    std::iota(alive.begin(), alive.end(), 0U);
    if (fault) std::erase(alive, fault->member);
    return alive;
}

// Members stand still from `stopped` to `resumed`, when joiners begin to work with them.
ScaleOut stopped_for(const Setting& setting, const std::optional<DonorFault>& fault, Time stopped, Time last_arrival) {
    const Time resumed = last_arrival + round_trip(setting);
    const Time survivors = setting.members - (fault ? 1 : 0);
    ScaleOut outcome;
    outcome.delay = last_arrival - setting.requested_at;
    outcome.members_idle = survivors * (resumed - stopped);
    outcome.joiners_idle = Time{setting.joiners} * (resumed - setting.requested_at);
    return outcome;
}

// Whose state each joiner copies.
std::vector<Host> choose_donors(Strategy strategy, const Setting& setting, const std::vector<Host>& alive, bool again) {
    std::vector<Host> donors(setting.joiners);
    std::vector<Host> free;  // members that no joiner copies from yet
    for (Host index = 0; index < setting.joiners; ++index) {
        const Host joiner = setting.joiner(index);
        switch (strategy) {
            case Strategy::elan: {
                if (free.empty()) free = alive;
                const auto best = std::max_element(free.begin(), free.end(), [&](Host x, Host y) {
                    return setting.wiring.rate(x, joiner) < setting.wiring.rate(y, joiner);
                });
                donors[index] = *best;
                free.erase(best);
                break;
            }
            case Strategy::edl:
                donors[index] = alive[random_bits(setting.seed, edl_donor, 2 * index + (again ? 1 : 0)) % alive.size()];
                break;
            case Strategy::torchft:
                donors[index] = alive[index % alive.size()];
                break;
            default:
                donors[index] = alive.front();
        }
    }
    return donors;
}

// The bytes of whole variables among the first `sent` bytes of the state.
std::uint64_t whole_variables(const Setting& setting, std::uint64_t sent) {
    std::uint64_t whole = 0;
    for (const std::uint64_t bytes : setting.variables) {
        if (whole + bytes > sent) break;
        whole += bytes;
    }
    return whole;
}

// Copies that begin at `began`; returns the arrival of the last. A donor's death is noticed when its connection closes,
// and another one is asked: a round trip.
Time last_copy(Strategy strategy, const Setting& setting, const std::optional<DonorFault>& fault, Time began) {
    const Wiring& wiring = setting.wiring;
    std::vector<Host> donor_of = choose_donors(strategy, setting, alive_members(setting, std::nullopt), false);
    const std::vector<Host> next_donor = choose_donors(strategy, setting, alive_members(setting, fault), true);
    struct Again {
        Time at = 0;
        Host index = 0;
        std::uint64_t bytes = 0;
    };
    std::vector<Again> again;
    Flows flows(wiring);
    flows.advance(began);
    std::vector<FlowId> flow_of(setting.joiners);
    for (Host index = 0; index < setting.joiners; ++index)
        flow_of[index] = flows.start(Flow{donor_of[index], setting.joiner(index), setting.state_bytes});
    bool fault_ahead = fault.has_value();
    Time last = began;
    for (;;) {
        Time next = flows.next_end();
        if (fault_ahead) next = std::min(next, fault->at);
        for (const Again& copy : again) next = std::min(next, copy.at);
        if (next == never) return last;
        flows.advance(next);
        for (const FlowId id : flows.take_ended()) {
            const auto index = static_cast<Host>(std::find(flow_of.begin(), flow_of.end(), id) - flow_of.begin());
            last = std::max(last, next + wiring.delay(donor_of[index], setting.joiner(index)));
        }
        if (fault_ahead && next >= fault->at) {
            fault_ahead = false;
            for (Host index = 0; index < setting.joiners; ++index) {
                if (donor_of[index] != fault->member || !flows.running(flow_of[index])) continue;
                const std::uint64_t kept =
                    strategy == Strategy::pccl ? whole_variables(setting, flows.sent(flow_of[index])) : 0;
                flows.stop(flow_of[index]);
                again.push_back(
                    {next + 2 * wiring.delay(fault->member, setting.joiner(index)), index, setting.state_bytes - kept});
            }
        }
        for (const Again& copy : again) {
            if (copy.at != next) continue;
            donor_of[copy.index] = next_donor[copy.index];
            flow_of[copy.index] = flows.start(Flow{donor_of[copy.index], setting.joiner(copy.index), copy.bytes});
        }
        std::erase_if(again, [&](const Again& copy) { return copy.at == next; });
    }
}

// The variables are dealt out one by one, whatever their size.
std::vector<std::uint64_t> split_by_count(const Setting& setting, std::size_t members) {
    std::vector<std::uint64_t> parts(members);
    for (std::size_t i = 0; i < setting.variables.size(); ++i) parts[i % members] += setting.variables[i];
    return parts;
}

// How long an allgather takes that brings every part to all members and joiners. It is granted a perfect schedule.
Time allgather(Strategy strategy, const Setting& setting, const std::vector<Host>& members) {
    std::vector<std::uint64_t> parts = split_by_count(setting, members.size());
    std::vector<Host> ranks = members;
    for (Host index = 0; index < setting.joiners; ++index) ranks.push_back(setting.joiner(index));
    parts.resize(ranks.size());  // a joiner has nothing to give
    std::vector<Flow> flows;
    Time delay = 0;
    if (strategy == Strategy::autoscaling_ring) {
        // Each hop carries all but what its end gave.
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            const std::size_t next = (i + 1) % ranks.size();
            flows.push_back({ranks[i], ranks[next], setting.state_bytes - parts[next]});
            delay += setting.wiring.delay(ranks[i], ranks[next]);
        }
    } else {
        for (std::size_t from = 0; from < members.size(); ++from) {
            for (std::size_t to = 0; to < ranks.size(); ++to) {
                if (from == to || parts[from] == 0) continue;
                flows.push_back({ranks[from], ranks[to], parts[from]});
                delay = std::max(delay, setting.wiring.delay(ranks[from], ranks[to]));
            }
        }
    }
    return busiest(setting.wiring, flows) + delay;
}

}  // namespace

ScaleOut copy_from_one(Strategy strategy, const Setting& setting, const std::optional<DonorFault>& fault) {
    const Time ready = setting.requested_at + others_set_up_round_trips * round_trip(setting);
    const Time stopped = next_boundary(setting, ready);
    const Time last = last_copy(strategy, setting, fault, stopped);
    ScaleOut outcome = stopped_for(setting, fault, stopped, last);
    if (strategy == Strategy::torchft) {
        // The copy overlaps the computation of the step at whose exchange everybody waits for the joiners. They give
        // nothing to that step.
        const Time computed = stopped + setting.rhythm.compute;
        const Time met = std::max(computed, last + round_trip(setting));
        const Time survivors = setting.members - (fault ? 1 : 0);
        outcome.members_idle = survivors * (met - computed);
        outcome.joiners_idle = Time{setting.joiners} * (met + setting.rhythm.exchange_alone - setting.requested_at);
    }
    outcome.worst_fault = {.at = stopped + (last - stopped) / 2,
                           .member = choose_donors(strategy, setting, alive_members(setting, std::nullopt), false)[0]};
    return outcome;
}

ScaleOut gather_variables(Strategy strategy, const Setting& setting, const std::optional<DonorFault>& fault) {
    const Time warm = setting.requested_at + others_set_up_round_trips * round_trip(setting) + setting.rhythm.compute;
    const Time stopped = next_boundary(setting, warm);
    const std::vector<Host> all = alive_members(setting, std::nullopt);
    const Time whole = allgather(strategy, setting, all);
    Time last = stopped + whole;
    if (fault && fault->at < last) {
        // A collective that lost a member has no partial result: the survivors split anew and begin again.
        last = fault->at + round_trip(setting) + allgather(strategy, setting, alive_members(setting, fault));
    }
    ScaleOut outcome = stopped_for(setting, fault, stopped, last);
    const std::vector<std::uint64_t> parts = split_by_count(setting, all.size());
    outcome.worst_fault = {.at = stopped + whole / 2,
                           .member = static_cast<Host>(std::max_element(parts.begin(), parts.end()) - parts.begin())};
    return outcome;
}

ScaleOut restart_from_store(Strategy strategy, const Setting& setting, const std::optional<DonorFault>& fault) {
    const Wiring& wiring = setting.wiring;
    const bool full = strategy == Strategy::pollux_full;
    Time ready = setting.requested_at + others_set_up_round_trips * round_trip(setting);
    if (full)
        ready +=
            static_cast<Time>(random_bits(setting.seed, pollux_wait, 0) % static_cast<std::uint64_t>(scheduler_period));
    const Time stopped = next_boundary(setting, ready);
    const auto write = [&](Host member) {
        return run_flows(wiring, {{member, setting.store(), setting.state_bytes}}) +
               wiring.delay(member, setting.store());
    };
    const std::vector<Host> alive = alive_members(setting, fault);
    const Time write_whole = write(0);
    Time written = stopped + write_whole;
    // Half a checkpoint is none. Granted: another member still has its memory and writes again.
    if (fault && fault->at < written) written = fault->at + round_trip(setting) + write(alive.front());
    const Time restarted = written + (full ? process_restart : 0);

    std::vector<Host> readers = alive;
    for (Host index = 0; index < setting.joiners; ++index) readers.push_back(setting.joiner(index));
    std::vector<Flow> reads;
    reads.reserve(readers.size());
    for (const Host reader : readers) reads.push_back({setting.store(), reader, setting.state_bytes});
    std::vector<Time> ends;
    static_cast<void>(run_flows(wiring, reads, &ends));
    Time last_joiner = 0;
    Time last_of_all = 0;
    for (std::size_t i = 0; i < readers.size(); ++i) {
        // Asking and the last byte's way: a round trip.
        const Time arrived = restarted + ends[i] + 2 * wiring.delay(setting.store(), readers[i]);
        last_of_all = std::max(last_of_all, arrived);
        if (i >= alive.size()) last_joiner = std::max(last_joiner, arrived);
    }
    ScaleOut outcome = stopped_for(setting, fault, stopped, last_of_all);
    outcome.delay = last_joiner - setting.requested_at;
    outcome.worst_fault = {.at = stopped + write_whole / 2, .member = 0};
    return outcome;
}

}  // namespace chaos::sim
