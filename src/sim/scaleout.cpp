#include "sim/scaleout.h"

#include "base/assert.h"
#include "base/random.h"
#include "plan/shard_plan.h"
#include "plan/sync_plan.h"
#include "sim/scaleout_strategies.h"

#include <algorithm>
#include <map>

namespace chaos::sim {
namespace {

constexpr std::uint64_t megabit_bytes_per_s = 125'000;
constexpr std::uint64_t rate_min_megabit = 100;
constexpr std::uint64_t rate_max_megabit = 1000;
constexpr Time delay_min = 1 * millisecond;
constexpr Time delay_max = 20 * millisecond;
constexpr std::uint64_t store_card_bytes_per_s = 1'250'000'000;

enum Stream : std::uint64_t { rates = 1, delays, phase };

// A host's name in random draws does not depend on how many others there are.
std::uint64_t draw_name(const Setting& setting, Host host) {
    if (host < setting.members) return host;
    if (host < setting.store()) return (std::uint64_t{1} << 20) + host - setting.members;
    return std::uint64_t{1} << 21;
}

Wiring draw_wiring(const Setting& setting, std::uint64_t card_bytes_per_s) {
    Wiring wiring;
    const Host hosts = setting.store() + 1;
    wiring.cards.assign(hosts, {card_bytes_per_s, card_bytes_per_s});
    wiring.cards[setting.store()] = {store_card_bytes_per_s, store_card_bytes_per_s};
    wiring.rates.assign(std::size_t{hosts} * hosts, 0);
    wiring.delays.assign(std::size_t{hosts} * hosts, 0);
    for (Host from = 0; from < hosts; ++from) {
        for (Host to = 0; to < hosts; ++to) {
            if (from == to) continue;
            const std::uint64_t a = draw_name(setting, from);
            const std::uint64_t b = draw_name(setting, to);
            const std::uint64_t megabit = rate_min_megabit + random_bits(setting.seed, rates, a << 32 | b) %
                                                                 (rate_max_megabit - rate_min_megabit + 1);
            wiring.rates[wiring.pair(from, to)] = megabit * megabit_bytes_per_s;
            const std::uint64_t both = std::min(a, b) << 32 | std::max(a, b);
            const auto spread = static_cast<std::uint64_t>(delay_max - delay_min + 1);
            wiring.delays[wiring.pair(from, to)] =
                delay_min + static_cast<Time>(random_bits(setting.seed, delays, both) % spread);
        }
    }
    return wiring;
}

}  // namespace

std::string_view title_of(Strategy strategy) {
    switch (strategy) {
        case Strategy::rolling:
            return "Chaos";
        case Strategy::elan:
            return "Elan";
        case Strategy::edl:
            return "EDL";
        case Strategy::pccl:
            return "PCCL";
        case Strategy::torchft:
            return "torchft";
        case Strategy::autoscaling:
            return "Autoscaling";
        case Strategy::autoscaling_ring:
            return "Autoscaling, ring";
        case Strategy::pollux:
            return "Pollux, moving only";
        case Strategy::pollux_full:
            return "Pollux";
    }
    return "";
}

Setting draw_setting(const Draw& draw, const Model& model) {
    Setting setting;
    setting.members = draw.members;
    setting.joiners = draw.joiners;
    setting.seed = draw.seed;
    setting.wiring = draw_wiring(setting, draw.card_bytes_per_s);
    for (std::uint64_t copy = 0; copy < copies_in_state; ++copy)
        setting.variables.insert(setting.variables.end(), model.variables.begin(), model.variables.end());
    setting.result_bytes = model.bytes();
    setting.state_bytes = model.bytes() * copies_in_state;
    setting.rhythm = plan_rhythm(setting, draw.compute);
    setting.requested_at = setting.rhythm.step() / 1000 * static_cast<Time>(random_bits(draw.seed, phase, 0) % 1000);
    return setting;
}

Rhythm plan_rhythm(const Setting& setting, Time compute, std::optional<Host> without) {
    const Wiring& wiring = setting.wiring;
    std::vector<Host> host_of;
    plan::SyncRequest request;
    request.bytes = setting.result_bytes;
    for (Host host = 0; host < setting.members; ++host) {
        if (without && host == *without) continue;
        host_of.push_back(host);
        request.members.push_back({.id = host,
                                   .egress_bytes_per_s = wiring.cards[host].egress_bytes_per_s,
                                   .ingress_bytes_per_s = wiring.cards[host].ingress_bytes_per_s});
    }
    const auto count = static_cast<std::uint32_t>(host_of.size());
    Rhythm rhythm;
    rhythm.compute = compute;
    if (count < 2) return rhythm;
    for (std::uint32_t a = 0; a < count; ++a) {
        for (std::uint32_t b = a + 1; b < count; ++b) {
            const Host x = host_of[a];
            const Host y = host_of[b];
            request.links.push_back({.a = a,
                                     .b = b,
                                     .a_to_b_bytes_per_s = wiring.rate(x, y),
                                     .b_to_a_bytes_per_s = wiring.rate(y, x),
                                     .delay_ns = static_cast<std::uint64_t>(wiring.delay(x, y))});
        }
    }
    const auto plan = plan::plan_sync(request);
    CHAOS_ASSERT(plan.ok());
    // A tree carries its range up and down each of its links.
    std::map<std::pair<Host, Host>, std::uint64_t> load;
    for (const plan::SyncTree& tree : plan->trees) {
        for (std::uint32_t child = 0; child < count; ++child) {
            if (tree.parent[child] == child) continue;
            load[{host_of[child], host_of[tree.parent[child]]}] += tree.bytes;
            load[{host_of[tree.parent[child]], host_of[child]}] += tree.bytes;
        }
    }
    std::vector<Flow> flows;
    flows.reserve(load.size());
    for (const auto& [pair, bytes] : load) flows.push_back({pair.first, pair.second, bytes});
    rhythm.exchange = bundle_of(wiring, flows, exchange_weight);
    rhythm.fill = std::max<Time>(static_cast<Time>(plan->predicted_ns) - busiest(wiring, flows), 0);
    Flows alone(wiring);
    alone.start(rhythm.exchange);
    rhythm.exchange_alone = alone.next_end() + rhythm.fill;
    return rhythm;
}

Time slowest_delay(const Setting& setting) {
    Time slowest = 0;
    for (Host from = 0; from < setting.store(); ++from)
        for (Host to = 0; to < setting.store(); ++to) slowest = std::max(slowest, setting.wiring.delay(from, to));
    return slowest;
}

Time limit_of(const Setting& setting) {
    const Wiring& wiring = setting.wiring;
    std::uint64_t longest = 0;
    std::uint64_t all_donors = 0;
    for (Host member = 0; member < setting.members; ++member) {
        std::uint64_t to_joiners = 0;
        for (Host index = 0; index < setting.joiners; ++index) to_joiners += wiring.rate(member, setting.joiner(index));
        all_donors += std::min(to_joiners, wiring.cards[member].egress_bytes_per_s);
    }
    Time round_trip = never;
    for (Host index = 0; index < setting.joiners; ++index) {
        const Host joiner = setting.joiner(index);
        std::uint64_t donors = 0;
        for (Host member = 0; member < setting.members; ++member) {
            donors += std::min(wiring.rate(member, joiner), wiring.cards[member].egress_bytes_per_s);
            round_trip = std::min(round_trip, 2 * wiring.delay(member, joiner));
        }
        longest = std::max(longest, plan::transfer_ns(setting.state_bytes,
                                                      std::min(donors, wiring.cards[joiner].ingress_bytes_per_s)));
    }
    longest = std::max(longest, plan::transfer_ns(setting.state_bytes * setting.joiners, all_donors));
    return static_cast<Time>(longest) + round_trip;
}

ScaleOut scale_out(Strategy strategy, const Setting& setting, const std::optional<DonorFault>& fault) {
    CHAOS_ASSERT(setting.members >= 2 && setting.joiners >= 1);
    switch (strategy) {
        case Strategy::rolling:
            return roll_shards(setting, fault);
        case Strategy::autoscaling:
        case Strategy::autoscaling_ring:
            return gather_variables(strategy, setting, fault);
        case Strategy::pollux:
        case Strategy::pollux_full:
            return restart_from_store(strategy, setting, fault);
        default:
            return copy_from_one(strategy, setting, fault);
    }
}

}  // namespace chaos::sim
