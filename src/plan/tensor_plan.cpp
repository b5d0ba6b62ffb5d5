#include "plan/tensor_plan.h"

#include "base/assert.h"
#include "base/hash.h"
#include "plan/say.h"
#include "plan/tensor_exchange.h"
#include "plan/tensor_shares.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

namespace chaos::plan {
namespace {

// Named by the hash, so that plans of different planners are told apart.
constexpr std::uint64_t planner_version = 3;

// Every set of so many devices is looked at.
constexpr std::size_t every_set_devices = 6;

// Steps of the search in all, and for one set of devices (tensor_shares.h).
constexpr std::uint64_t most_work = 700'000;
constexpr std::uint64_t most_work_per_set = most_work / 4;

constexpr std::uint64_t max_bytes = std::uint64_t{1} << 50;
constexpr std::uint64_t max_units = std::uint64_t{1} << 16;
constexpr std::uint64_t max_device_ns = std::uint64_t{1} << 50;
constexpr std::uint64_t full_share = 1000;

std::string name_of_device(const TensorDevice& device) {
    return device.name.empty() ? "device " + std::to_string(device.id) : device.name;
}

Result<void> check_model(const TensorModel& model) {
    const auto units = {model.layers, model.heads, model.kv_heads, model.head_unit, model.ffn_units, model.vocab_units};
    if (!std::all_of(units.begin(), units.end(), [](std::uint64_t count) { return count > 0 && count <= max_units; }))
        return Error{"a model has layers, heads and units, from 1 to " + std::to_string(max_units) + " of each"};
    if (model.heads % model.kv_heads != 0 || model.heads % model.head_unit != 0)
        return Error{"the number of heads is a multiple of key-value heads and of heads that stay together"};
    const auto sizes = {model.query_head_bytes, model.kv_head_bytes,    model.ffn_unit_bytes, model.vocab_unit_bytes,
                        model.cache_bytes,      model.everywhere_bytes, model.ring_bytes,     model.width};
    const bool empty = model.query_head_bytes == 0 || model.ffn_unit_bytes == 0 || model.vocab_unit_bytes == 0;
    const u128 all = u128{weight_bytes(model)} + u128{model.cache_bytes} * model.layers * model.kv_heads +
                     model.everywhere_bytes + model.ring_bytes;
    if (empty || model.width == 0 || model.width > max_units * 64 || all > max_bytes ||
        *std::max_element(sizes.begin(), sizes.end()) > max_bytes)
        return Error{"the model's weights make no sense: a unit has none, or all together are more than " +
                     say_bytes(max_bytes)};
    return {};
}

Result<void> check(const TensorRequest& request) {
    CHAOS_CHECK(check_model(request.model));
    if (request.devices.empty()) return Error{"there is no device to compute on"};
    if (request.devices.size() > max_tensor_devices)
        return Error{"a model is divided over at most " + std::to_string(max_tensor_devices) + " devices, not " +
                     std::to_string(request.devices.size())};
    std::set<std::uint64_t> ids;
    for (const TensorDevice& device : request.devices) {
        if (!ids.insert(device.id).second) return Error{"two devices have the id " + std::to_string(device.id)};
        if (device.weight_bytes_per_s == 0) return Error{name_of_device(device) + " has no speed"};
        if (device.phase_ns > max_device_ns || device.message_ns > max_device_ns)
            return Error{name_of_device(device) + " takes days for a message or a phase"};
        if (device.share_permille == 0 || device.share_permille > full_share)
            return Error{name_of_device(device) + " computes for more than all of the time, or never"};
    }
    std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (const SyncLink& link : request.links) {
        if (link.a >= request.devices.size() || link.b >= request.devices.size() || link.a == link.b)
            return Error{"a link joins two different devices of the request"};
        if (!pairs.insert(std::minmax(link.a, link.b)).second)
            return Error{"there are two links between " + name_of_device(request.devices[link.a]) + " and " +
                         name_of_device(request.devices[link.b])};
    }
    return {};
}

using Mask = std::uint64_t;  // of ranks

// Which devices take part.
class SetSearch {
public:
    SetSearch(const TensorRequest& request, const TensorWires& wires)
        : request_(request), wires_(wires), exchanges_(request, wires) {}

    struct Best {
        Mask mask = 0;
        std::vector<std::uint32_t> members;  // ranks
        ExchangeChoice choice;
        Division division;
        std::uint64_t bound_ns = 0;
    };

    void run();
    [[nodiscard]] const std::optional<Best>& best() const { return best_; }
    [[nodiscard]] std::uint64_t alone_ns() const { return alone_ns_; }
    [[nodiscard]] const Exchanges& exchanges() const { return exchanges_; }
    // What is known of a token's time among these: it is at least that.
    [[nodiscard]] std::uint64_t at_least_ns(Mask mask) const;

private:
    [[nodiscard]] std::vector<std::uint32_t> members_of(Mask mask) const;
    [[nodiscard]] const TensorDevice& device(std::uint32_t rank) const {
        return request_.devices[wires_.device_of[rank]];
    }
    bool consider(Mask mask);
    void try_every_set();
    void try_by_speed();
    void better_one_by_one();

    const TensorRequest& request_;
    const TensorWires& wires_;
    Exchanges exchanges_;
    std::optional<Best> best_;
    std::uint64_t alone_ns_ = unlimited;
    std::uint64_t work_ = most_work;
    std::map<Mask, std::uint64_t> known_;  // sets that were looked at, and the least a token takes there
};

std::vector<std::uint32_t> SetSearch::members_of(Mask mask) const {
    std::vector<std::uint32_t> members;
    for (; mask != 0; mask &= mask - 1) members.push_back(static_cast<std::uint32_t>(std::countr_zero(mask)));
    return members;
}

std::uint64_t SetSearch::at_least_ns(Mask mask) const {
    const auto found = known_.find(mask);
    return found == known_.end() ? 0 : found->second;
}

// Whether it is better than the best so far: faster, or as fast with fewer.
bool SetSearch::consider(Mask mask) {
    if (known_.contains(mask)) return false;
    const std::vector<std::uint32_t> members = members_of(mask);
    std::uint64_t below = best_ ? best_->division.token_ns : longest_ns;
    if (best_ && std::popcount(mask) < std::popcount(best_->mask)) ++below;
    u128 rate = 0;
    std::vector<const TensorDevice*> devices;
    for (const std::uint32_t rank : members) {
        devices.push_back(&device(rank));
        rate += device(rank).weight_bytes_per_s;
    }
    CHAOS_ASSERT(rate > 0);
    std::uint64_t& least = known_[mask];
    least = static_cast<std::uint64_t>(u128{weight_bytes(request_.model)} * ns_per_s / rate);
    if (least >= below) return false;
    ExchangeChoice choice = exchanges_.best(members);
    least = saturating_add(least, choice.token_ns);
    if (least >= below) return false;
    TensorDivider divider(request_.model, devices);
    least = divider.bound_ns(choice.token_ns);
    if (least >= below) return false;
    std::uint64_t work = std::min(work_, most_work_per_set);
    const std::uint64_t allowed = work;
    std::optional<Division> division = divider.best(choice.token_ns, below, work);
    work_ -= allowed - work;
    if (!division) {
        least = std::max(least, below);
        return false;
    }
    const std::uint64_t bound = least;
    least = division->token_ns;
    best_ = Best{mask, members, std::move(choice), std::move(*division), bound};
    return true;
}

void SetSearch::run() {
    const auto count = static_cast<std::uint32_t>(request_.devices.size());
    for (std::uint32_t rank = 0; rank < count; ++rank) consider(Mask{1} << rank);
    if (best_) alone_ns_ = best_->division.token_ns;
    if (request_.everyone && count > 1) {
        best_.reset();
        consider(~Mask{0} >> (max_tensor_devices - count));
    } else if (count <= every_set_devices) {
        try_every_set();
    } else {
        try_by_speed();
        better_one_by_one();
    }
}

// The most promising first: they spare the others.
void SetSearch::try_every_set() {
    const Mask end = Mask{1} << request_.devices.size();
    std::vector<std::pair<std::uint64_t, Mask>> sets;
    for (Mask mask = 1; mask < end; ++mask) {
        if (std::popcount(mask) == 1) continue;
        const std::vector<std::uint32_t> members = members_of(mask);
        std::uint64_t rate = 0;
        for (const std::uint32_t rank : members) rate = saturating_add(rate, device(rank).weight_bytes_per_s);
        const std::uint64_t exchange = exchanges_.best(members).token_ns;
        if (exchange == unlimited) continue;
        sets.emplace_back(exchange + transfer_ns(weight_bytes(request_.model), rate), mask);
    }
    std::sort(sets.begin(), sets.end());
    for (const auto& [ns, mask] : sets) consider(mask);
}

void SetSearch::try_by_speed() {
    std::vector<std::uint32_t> ranks(request_.devices.size());
    std::iota(ranks.begin(), ranks.end(), 0U);
    std::sort(ranks.begin(), ranks.end(), [&](std::uint32_t x, std::uint32_t y) {
        const std::uint64_t fast = device(x).weight_bytes_per_s;
        const std::uint64_t other = device(y).weight_bytes_per_s;
        return fast != other ? fast > other : x < y;
    });
    std::vector<Mask> sets;
    sets.reserve(ranks.size());
    Mask mask = 0;
    for (const std::uint32_t rank : ranks) sets.push_back(mask |= Mask{1} << rank);
    for (std::size_t i = sets.size(); i-- > 0;) consider(sets[i]);
}

void SetSearch::better_one_by_one() {
    const auto count = static_cast<std::uint32_t>(request_.devices.size());
    for (bool better = best_.has_value(); better && work_ > 0;) {
        better = false;
        const Mask around = best_->mask;
        for (std::uint32_t rank = 0; rank < count; ++rank) {
            const Mask other = around ^ Mask { 1 } << rank;
            if (other != 0 && consider(other)) better = true;
        }
    }
}

// The request makes sense, and nothing can be done with it: why.
std::string refusal(const TensorRequest& request) {
    const TensorModel& model = request.model;
    std::uint64_t room = 0;
    bool can_stream = false;
    for (const TensorDevice& device : request.devices) {
        const std::uint64_t always = saturating_add(device.program_bytes, model.everywhere_bytes);
        room = saturating_add(room, device.memory_bytes - std::min(device.memory_bytes, always));
        can_stream = can_stream || device.disk_bytes_per_s > 0;
    }
    const std::uint64_t cache = model.cache_bytes * model.layers * model.kv_heads;
    const std::uint64_t needed = cache + (can_stream ? model.ring_bytes : weight_bytes(model));
    const std::string have = "the devices have room for " + say_bytes(room) + " beside the program and activations";
    const std::string want = "the model has " + say_bytes(weight_bytes(model)) + " of weights and " + say_bytes(cache) +
                             " of keys and values";
    if (room < needed)
        return have + ", and " + want + ": " + say_bytes(needed - room) + " are missing" +
               (can_stream ? "" : " (no device has a disk to stream from)");
    return have + ", and " + want +
           ": no set of devices that can exchange sums has enough of it, in whole units of heads, FFN and vocabulary. "
           "More memory, a shorter context, a disk to stream from, or more links would do";
}

struct PhaseBytes {
    std::uint64_t attention = 0;  // per layer
    std::uint64_t ffn = 0;        // likewise
    std::uint64_t head = 0;
};
PhaseBytes phase_bytes(const TensorModel& model, const TensorShare& share) {
    return {.attention = share.heads.count * model.query_head_bytes + share.kv_heads.count * model.kv_head_bytes,
            .ffn = share.ffn.count * model.ffn_unit_bytes,
            .head = share.vocab.count * model.vocab_unit_bytes};
}

// What its ranges take of the device's memory. False: there is no room for them.
bool set_memory(const TensorModel& model, const TensorDevice& device, TensorShare& share) {
    const PhaseBytes bytes = phase_bytes(model, share);
    share.weight_bytes = model.layers * (bytes.attention + bytes.ffn) + bytes.head;
    share.streamed_bytes = 0;
    share.ring_bytes = 0;
    share.cache_bytes = model.layers * model.cache_bytes * share.kv_heads.count;
    const std::uint64_t always = device.program_bytes + model.everywhere_bytes + share.cache_bytes;
    if (always > device.memory_bytes) return false;
    const std::uint64_t room = device.memory_bytes - always;
    share.memory_bytes = always + share.weight_bytes;
    if (share.weight_bytes <= room) return true;
    if (room < model.ring_bytes || device.disk_bytes_per_s == 0) return false;
    share.streamed_bytes = streamed_bytes(model, share.weight_bytes, room);
    share.ring_bytes = model.ring_bytes + ceil_div(share.streamed_bytes, model.layers + 1);
    if (share.streamed_bytes > share.weight_bytes) return false;
    share.memory_bytes = always + share.weight_bytes - share.streamed_bytes + share.ring_bytes;
    return share.memory_bytes <= device.memory_bytes;
}

void set_ranges(const TensorRequest& request, const TensorWires& wires, const SetSearch::Best& best, TensorPlan& plan) {
    const TensorModel& model = request.model;
    std::uint64_t head = 0;
    std::uint64_t ffn = 0;
    std::uint64_t vocab = 0;
    for (std::size_t i = 0; i < best.members.size(); ++i) {
        const std::uint32_t index = wires.device_of[best.members[i]];
        TensorShare& share = plan.shares[index];
        share.member = true;
        share.heads = {head, best.division.heads[i] * model.head_unit};
        share.kv_heads = kv_heads_of(model, share.heads);
        share.ffn = {ffn, best.division.ffn[i]};
        share.vocab = {vocab, best.division.vocab[i]};
        head += share.heads.count;
        ffn += share.ffn.count;
        vocab += share.vocab.count;
        const bool fits = set_memory(model, request.devices[index], share);
        CHAOS_ASSERT(fits);
    }
    CHAOS_ASSERT(head == model.heads && ffn == model.ffn_units && vocab == model.vocab_units);
}

// Messages that the device sends and takes in one exchange.
std::uint64_t messages_of(const TensorPlan& plan, std::size_t index) {
    const auto members = static_cast<std::uint64_t>(std::ranges::count_if(plan.shares, &TensorShare::member));
    if (plan.parent.empty()) return (plan.exchange == TensorExchange::scatter ? 4 : 2) * (members - 1);
    std::uint64_t neighbours = plan.parent[index] == index ? 0 : 1;
    for (std::size_t other = 0; other < plan.shares.size(); ++other)
        if (other != index && plan.shares[other].member && plan.parent[other] == index) ++neighbours;
    return 2 * neighbours;
}

void set_times(const TensorRequest& request, std::uint64_t exchange_ns, TensorPlan& plan) {
    const TensorModel& model = request.model;
    const std::uint64_t exchanges = 2 * model.layers + (plan.whole_heads ? 0 : 1);
    std::uint64_t attention = 0;
    std::uint64_t ffn = 0;
    std::uint64_t head = 0;
    plan.disk_ns = 0;
    plan.rests_ns = 0;
    for (std::size_t i = 0; i < plan.shares.size(); ++i) {
        TensorShare& share = plan.shares[i];
        if (!share.member) continue;
        const TensorDevice& device = request.devices[i];
        const PhaseBytes bytes = phase_bytes(model, share);
        const auto phase = [&](std::uint64_t of) {
            return device.phase_ns + transfer_ns(of, device.weight_bytes_per_s);
        };
        share.attention_ns = phase(bytes.attention);
        share.ffn_ns = phase(bytes.ffn);
        share.head_ns = phase(bytes.head);
        share.disk_ns = transfer_ns(share.streamed_bytes, device.disk_bytes_per_s);
        attention = std::max(attention, share.attention_ns);
        ffn = std::max(ffn, share.ffn_ns);
        head = std::max(head, share.head_ns);
        plan.disk_ns = std::max(plan.disk_ns, share.disk_ns);
        if (device.share_permille == full_share) continue;
        const u128 busy = u128{model.layers} * (u128{share.attention_ns} + share.ffn_ns) + share.head_ns +
                          u128{exchanges} * messages_of(plan, i) * device.message_ns;
        plan.rests_ns =
            std::max(plan.rests_ns, std::min(saturate(busy * full_share / device.share_permille), longest_ns));
    }
    plan.compute_ns = model.layers * (attention + ffn) + head;
    plan.exchange_ns = exchange_ns;
    plan.predicted_ns = std::max({plan.compute_ns + plan.exchange_ns, plan.disk_ns, plan.rests_ns});
}

// Who computes for a share of the time, as one that computes all the time and slower.
TensorRequest slowed(const TensorRequest& request) {
    TensorRequest slow = request;
    for (TensorDevice& device : slow.devices) {
        const std::uint64_t share = std::exchange(device.share_permille, full_share);
        device.weight_bytes_per_s =
            std::max<std::uint64_t>(1, saturate(u128{device.weight_bytes_per_s} * share / full_share));
        device.phase_ns = std::min(max_device_ns, device.phase_ns * full_share / share);
    }
    return slow;
}

// Those who take part, in the order of their ranks, and the place of each one's parent.
struct Party {
    std::vector<std::uint32_t> members;
    std::vector<std::uint32_t> parent;
};
Party party_of(const TensorWires& wires, const TensorPlan& plan) {
    Party party;
    std::vector<std::uint32_t> place(plan.shares.size());
    for (std::uint32_t rank = 0; rank < wires.devices; ++rank) {
        if (!plan.shares[wires.device_of[rank]].member) continue;
        place[wires.device_of[rank]] = static_cast<std::uint32_t>(party.members.size());
        party.members.push_back(rank);
    }
    if (plan.parent.empty()) return party;
    party.parent.reserve(party.members.size());
    for (const std::uint32_t rank : party.members) party.parent.push_back(place[plan.parent[wires.device_of[rank]]]);
    return party;
}

// All exchanges of a token.
std::uint64_t token_exchange_ns(const TensorRequest& request, const TensorWires& wires, const TensorPlan& plan) {
    const Party party = party_of(wires, plan);
    if (party.members.size() == 1) return 0;
    const auto one = [&](std::uint64_t bytes) {
        return exchange_ns(wires, party.members, plan.exchange, party.parent, bytes);
    };
    const std::uint64_t sums = one(saturate(u128{request.model.width} * sizeof(std::int64_t)));
    const std::uint64_t candidates = plan.whole_heads ? 0 : one(request.candidate_bytes);
    return std::min(saturate(u128{2} * request.model.layers * sums + candidates), longest_ns);
}

// The same division with the whole head on every member, where that is faster.
void try_whole_heads(const TensorRequest& request, const TensorWires& wires, TensorPlan& plan) {
    if (!request.whole_heads || plan.exchange == TensorExchange::alone) return;
    TensorPlan whole = plan;
    whole.whole_heads = true;
    for (std::size_t i = 0; i < whole.shares.size(); ++i) {
        TensorShare& share = whole.shares[i];
        if (!share.member) continue;
        share.vocab = {.first = 0, .count = request.model.vocab_units};
        if (!set_memory(request.model, request.devices[i], share)) return;
    }
    set_times(request, token_exchange_ns(request, wires, whole), whole);
    if (whole.predicted_ns < plan.predicted_ns) plan = std::move(whole);
}

std::uint64_t hash_of(const TensorRequest& request, const TensorWires& wires, const TensorPlan& plan) {
    std::vector<std::uint64_t> words{planner_version,         static_cast<std::uint64_t>(plan.exchange),
                                     request.model.layers,    request.model.heads,
                                     request.model.ffn_units, request.model.vocab_units};
    for (const std::uint32_t index : wires.device_of) {
        const TensorShare& share = plan.shares[index];
        if (!share.member) continue;
        words.push_back(request.devices[index].id);
        for (const UnitRange& range : {share.heads, share.kv_heads, share.ffn, share.vocab}) {
            words.push_back(range.first);
            words.push_back(range.count);
        }
        if (!plan.parent.empty()) words.push_back(request.devices[plan.parent[index]].id);
    }
    // Little-endian on every machine.
    std::vector<std::byte> canonical;
    canonical.reserve(words.size() * 8);
    for (const std::uint64_t word : words) {
        for (int shift = 0; shift < 64; shift += 8) canonical.push_back(static_cast<std::byte>(word >> shift & 0xff));
    }
    return xxh3(canonical);
}

void explain_exchange(const TensorRequest& request, const SetSearch& search, TensorPlan& plan) {
    const SetSearch::Best& best = *search.best();
    if (best.members.size() == 1) return;
    std::string others;
    for (const TensorExchange exchange :
         {TensorExchange::direct, TensorExchange::scatter, TensorExchange::star, TensorExchange::tree}) {
        if (exchange == plan.exchange) continue;
        const std::uint64_t ns = search.exchanges().best(best.members, exchange).token_ns;
        const bool allowed =
            std::find(request.exchanges.begin(), request.exchanges.end(), exchange) != request.exchanges.end();
        others += (others.empty() ? "" : ", ") + std::string(name_of(exchange)) + " " +
                  (ns == unlimited ? "lacks links" : say_time(ns)) + (allowed ? "" : " (not asked for)");
    }
    plan.reasons.push_back("a token's " + std::to_string(2 * request.model.layers) + " exchanges of " +
                           say_bytes(request.model.width * 8) +
                           (plan.whole_heads ? " take " : " and one of candidates take ") + say_time(plan.exchange_ns) +
                           " by " + name_of(plan.exchange) +
                           (plan.whole_heads ? "; others, with candidates: " : "; others: ") + others);
    if (plan.whole_heads)
        plan.reasons.push_back("everybody has the whole head, " +
                               say_bytes(request.model.vocab_units * request.model.vocab_unit_bytes) +
                               ": to multiply it takes less than to hear of the others' candidates");
}

void explain_left_out(const TensorRequest& request, const TensorWires& wires, const SetSearch& search,
                      TensorPlan& plan) {
    for (std::uint32_t rank = 0; rank < wires.devices; ++rank) {
        const TensorDevice& device = request.devices[wires.device_of[rank]];
        const TensorShare& share = plan.shares[wires.device_of[rank]];
        if (share.member) {
            if (share.weight_bytes == 0) plan.reasons.push_back(name_of_device(device) + " only relays for others");
            continue;
        }
        const std::uint64_t with = search.at_least_ns(search.best()->mask | Mask{1} << rank);
        std::string why = "it would not make a token faster";
        if (with == unlimited)
            why = "it has no memory for its part, or no link to the others";
        else if (with > plan.predicted_ns)
            why = "with it a token would take " + say_time(with) + " or more";
        plan.reasons.push_back(name_of_device(device) + " is left out: " + why);
    }
}

// The first of the reasons.
std::string summary(const TensorRequest& request, const TensorPlan& plan) {
    const auto members = std::ranges::count_if(plan.shares, &TensorShare::member);
    const auto first = std::ranges::find_if(plan.shares, &TensorShare::member) - plan.shares.begin();
    const std::string who = members == 1
                                ? name_of_device(request.devices[static_cast<std::size_t>(first)]) + " alone"
                                : std::to_string(members) + " of " + say_count(request.devices.size(), "device");
    std::string times = say_time(plan.compute_ns) + " to compute and " + say_time(plan.exchange_ns) + " to exchange";
    if (plan.disk_ns > 0) times += ", beside " + say_time(plan.disk_ns) + " to stream weights";
    if (plan.rests_ns > plan.compute_ns + plan.exchange_ns)
        times += ", but " + say_time(plan.rests_ns) + " for who computes only for a share of the time";
    return who + ": " + say_time(plan.predicted_ns) + " per token, " + times +
           (plan.whole_heads ? "; no division of the head, too, takes less than "
                             : "; no division among them takes less than ") +
           say_time(plan.bound_ns);
}

void explain(const TensorRequest& request, const TensorWires& wires, const SetSearch& search, TensorPlan& plan) {
    const SetSearch::Best& best = *search.best();
    plan.reasons.push_back(summary(request, plan));
    if (best.members.size() > 1)
        plan.reasons.push_back(plan.alone_ns == unlimited
                                   ? "no device can do it alone"
                                   : "the fastest device alone would take " + say_time(plan.alone_ns));
    explain_exchange(request, search, plan);
    explain_left_out(request, wires, search, plan);
}

}  // namespace

std::uint64_t weight_bytes(const TensorModel& model) {
    const u128 layer = u128{model.heads} * model.query_head_bytes + u128{model.kv_heads} * model.kv_head_bytes +
                       u128{model.ffn_units} * model.ffn_unit_bytes;
    return saturate(layer * model.layers + u128{model.vocab_units} * model.vocab_unit_bytes);
}

const char* name_of(TensorExchange exchange) {
    switch (exchange) {
        case TensorExchange::alone:
            return "alone";
        case TensorExchange::direct:
            return "direct";
        case TensorExchange::scatter:
            return "scatter";
        case TensorExchange::star:
            return "star";
        case TensorExchange::tree:
            return "tree";
    }
    return "unknown";
}

Result<TensorPlan> plan_tensor(const TensorRequest& request) {
    CHAOS_CHECK(check(request));
    const TensorRequest slow = slowed(request);
    const TensorWires wires = read_wires(request);
    SetSearch search(slow, wires);
    search.run();
    if (!search.best()) return Error{refusal(request)};
    const SetSearch::Best& best = *search.best();
    TensorPlan plan;
    plan.shares.resize(request.devices.size());
    plan.exchange = best.choice.exchange;
    if (!best.choice.parent.empty()) {
        plan.parent.resize(request.devices.size());
        std::iota(plan.parent.begin(), plan.parent.end(), 0U);
        for (std::size_t i = 0; i < best.members.size(); ++i)
            plan.parent[wires.device_of[best.members[i]]] = wires.device_of[best.members[best.choice.parent[i]]];
    }
    set_ranges(request, wires, best, plan);
    set_times(slow, best.choice.token_ns, plan);
    CHAOS_ASSERT(plan.predicted_ns <= best.division.token_ns);
    set_times(request, best.choice.token_ns, plan);
    try_whole_heads(request, wires, plan);
    plan.bound_ns = std::min(best.bound_ns, plan.predicted_ns);
    plan.alone_ns = search.alone_ns();
    plan.hash = hash_of(request, wires, plan);
    explain(request, wires, search, plan);
    return plan;
}

TensorPlan predict_anew(const TensorRequest& request, TensorPlan plan) {
    CHAOS_ASSERT(plan.shares.size() == request.devices.size() && !plan.reasons.empty());
    const TensorWires wires = read_wires(request);
    set_times(request, token_exchange_ns(request, wires, plan), plan);
    plan.bound_ns = std::min(plan.bound_ns, plan.predicted_ns);
    plan.reasons.front() = summary(request, plan);
    return plan;
}

std::uint64_t predict_prompt_ns(const TensorRequest& request, const TensorPlan& plan, std::uint64_t tokens) {
    const TensorWires wires = read_wires(request);
    const auto [members, parent] = party_of(wires, plan);
    std::uint64_t attention = 0;
    std::uint64_t ffn = 0;
    std::uint64_t head = 0;
    for (const std::uint32_t rank : members) {
        const std::uint32_t index = wires.device_of[rank];
        const TensorDevice& device = request.devices[index];
        const TensorShare& share = plan.shares[index];
        if (device.prompt_bytes_per_s == 0) return 0;
        const auto phase = [&](std::uint64_t bytes) {
            const std::uint64_t all = saturate(u128{bytes} * tokens);
            return device.phase_ns +
                   std::max(transfer_ns(bytes, device.weight_bytes_per_s), transfer_ns(all, device.prompt_bytes_per_s));
        };
        const TensorModel& model = request.model;
        attention = std::max(
            attention, phase(share.heads.count * model.query_head_bytes + share.kv_heads.count * model.kv_head_bytes));
        ffn = std::max(ffn, phase(share.ffn.count * model.ffn_unit_bytes));
        // Only the last token's logits are asked for.
        head = std::max(head, share.head_ns);
    }
    const std::uint64_t sums = exchange_ns(wires, members, plan.exchange, parent,
                                           saturate(u128{request.model.width} * sizeof(std::int64_t) * tokens));
    const std::uint64_t candidates =
        plan.whole_heads ? 0 : exchange_ns(wires, members, plan.exchange, parent, request.candidate_bytes);
    const u128 phases = (u128{attention} + ffn + 2 * u128{sums}) * request.model.layers + head + candidates;
    return std::max(std::min(saturate(phases), longest_ns), plan.disk_ns);
}

}  // namespace chaos::plan
