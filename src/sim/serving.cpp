#include "sim/serving.h"

#include "base/assert.h"

#include <algorithm>
#include <map>

namespace chaos::sim {
namespace {

using plan::TensorExchange;

// What is read from disk at once.
constexpr std::uint64_t part_bytes = std::uint64_t{2} << 20;
// Tokens that are not counted.
constexpr std::size_t first_tokens = 2;

Time time_for(std::uint64_t bytes, std::uint64_t bytes_per_s) {
    return static_cast<Time>(plan::transfer_ns(bytes, bytes_per_s));
}

// One phase of a token on one device.
struct PassPhase {
    std::uint64_t pinned_bytes = 0;
    std::size_t first_part = 0;  // of those that are streamed
    std::size_t last_part = 0;
};

// Messages of one exchange that a device has taken up.
struct Arrivals {
    bool own = false;  // what it computed itself
    std::size_t sums = 0;
    std::size_t results = 0;
    bool passed_on = false;  // its sum, or the result of its piece
    bool complete = false;
};

struct Device {
    std::size_t index = 0;  // in the request
    const plan::TensorDevice* figures = nullptr;
    std::vector<PassPhase> phases;
    std::vector<std::uint64_t> parts;  // of one token
    std::size_t parent = 0;            // star and tree: places among the members
    std::vector<std::size_t> children;

    std::uint64_t phase = 0;                   // since the run began
    std::size_t part = 0;                      // being multiplied or waited for
    std::uint64_t loaded = 0, multiplied = 0;  // parts since the run began
    std::uint64_t in_ring = 0;                 // bytes
    bool loading = false;
    bool waits_for_part = false;
    Time since = 0;  // what it does now
    Time io_free = 0, egress_free = 0, ingress_free = 0;
    std::map<std::uint64_t, Arrivals> exchanges;  // by phase
};

struct Message {
    std::uint64_t phase = 0;
    bool result = false;
    std::uint64_t bytes = 0;
};

enum class Kind { begin_phase, pinned_done, part_loaded, part_done, first_byte, last_byte, taken };
struct Event {
    Kind kind = Kind::begin_phase;
    std::size_t device = 0;
    Message message{};
    Time last_byte_at = 0;
};

class Run {
public:
    Run(const plan::TensorRequest& request, const plan::TensorPlan& plan, std::uint32_t tokens);
    ServingOutcome finish();

private:
    void add_device(std::size_t index);
    void happen(const Event& event);
    [[nodiscard]] std::uint64_t phases_of_token() const { return 2 * request_.model.layers + 1; }
    [[nodiscard]] bool is_head(std::uint64_t phase) const { return (phase + 1) % phases_of_token() == 0; }
    [[nodiscard]] const PassPhase& phase_of(const Device& device) const {
        return device.phases[device.phase % phases_of_token()];
    }

    void load(std::size_t at);
    void multiply_next(std::size_t at);
    void end_phase(std::size_t at);
    void send(std::size_t from, std::size_t to, std::uint64_t phase, bool result);
    void send_to_all(std::size_t from, std::uint64_t phase, bool result);
    void advance(std::size_t at, std::uint64_t phase);
    void complete(std::size_t at, std::uint64_t phase);

    const plan::TensorRequest& request_;
    const plan::TensorPlan& plan_;
    std::uint64_t last_phase_;
    Queue<Event> queue_;
    Time now_ = 0;
    std::vector<Device> devices_;  // members only
    std::vector<const plan::SyncLink*> links_;
    std::vector<Time> link_free_;  // from a to b at a * members + b
    std::vector<std::size_t> token_devices_;
    ServingOutcome outcome_;
};

Run::Run(const plan::TensorRequest& request, const plan::TensorPlan& plan, std::uint32_t tokens)
    : request_(request), plan_(plan), last_phase_(tokens * (2 * request.model.layers + 1)) {
    std::vector<std::size_t> place(request.devices.size());
    for (std::size_t index = 0; index < request.devices.size(); ++index) {
        if (!plan.shares[index].member) continue;
        place[index] = devices_.size();
        add_device(index);
    }
    const std::size_t count = devices_.size();
    links_.resize(count * count);
    link_free_.resize(count * count);
    for (const plan::SyncLink& link : request.links) {
        if (!plan.shares[link.a].member || !plan.shares[link.b].member) continue;
        links_[place[link.a] * count + place[link.b]] = &link;
        links_[place[link.b] * count + place[link.a]] = &link;
    }
    if (!plan.parent.empty()) {
        for (std::size_t i = 0; i < count; ++i) {
            devices_[i].parent = place[plan.parent[devices_[i].index]];
            if (devices_[i].parent != i) devices_[devices_[i].parent].children.push_back(i);
        }
    }
    outcome_.token_ends.resize(tokens);
    outcome_.devices.resize(request.devices.size());
    token_devices_.resize(tokens);
}

// Streamed bytes are spread over the phases as their weights are.
void Run::add_device(std::size_t index) {
    const plan::TensorModel& model = request_.model;
    const plan::TensorShare& share = plan_.shares[index];
    Device device;
    device.index = index;
    device.figures = &request_.devices[index];
    const std::uint64_t most = std::clamp<std::uint64_t>(share.ring_bytes / 2, 1, part_bytes);
    std::uint64_t seen = 0;
    std::uint64_t streamed = 0;
    const auto add_phase = [&](std::uint64_t bytes) {
        seen += bytes;
        const std::uint64_t end =
            share.weight_bytes == 0 ? 0 : plan::mul_div(share.streamed_bytes, seen, share.weight_bytes);
        PassPhase phase{bytes - (end - streamed), device.parts.size(), 0};
        for (std::uint64_t left = end - streamed; left > 0; left -= device.parts.back())
            device.parts.push_back(std::min(left, most));
        phase.last_part = device.parts.size();
        device.phases.push_back(phase);
        streamed = end;
    };
    for (std::uint64_t layer = 0; layer < model.layers; ++layer) {
        add_phase(share.heads.count * model.query_head_bytes + share.kv_heads.count * model.kv_head_bytes);
        add_phase(share.ffn.count * model.ffn_unit_bytes);
    }
    add_phase(share.vocab.count * model.vocab_unit_bytes);
    devices_.push_back(std::move(device));
}

void Run::load(std::size_t at) {
    Device& device = devices_[at];
    if (device.loading || device.parts.empty()) return;
    const std::uint64_t bytes = device.parts[device.loaded % device.parts.size()];
    if (device.in_ring + bytes > plan_.shares[device.index].ring_bytes && device.in_ring > 0) return;
    device.in_ring += bytes;
    device.loading = true;
    queue_.push(now_ + time_for(bytes, device.figures->disk_bytes_per_s), {Kind::part_loaded, at});
}

// The part whose turn it is, if it has arrived; after the last one the phase is done.
void Run::multiply_next(std::size_t at) {
    Device& device = devices_[at];
    if (device.part == phase_of(device).last_part) {
        end_phase(at);
        return;
    }
    if (device.multiplied == device.loaded) {
        device.waits_for_part = true;
        device.since = now_;
        return;
    }
    const Time takes = time_for(device.parts[device.part], device.figures->weight_bytes_per_s);
    outcome_.devices[device.index].computing += takes;
    queue_.push(now_ + takes, {Kind::part_done, at});
}

void Run::end_phase(std::size_t at) {
    Device& device = devices_[at];
    const std::uint64_t phase = device.phase;
    device.since = now_;
    device.exchanges[phase].own = true;
    const bool told_to_all = plan_.exchange == TensorExchange::direct || plan_.exchange == TensorExchange::scatter;
    if (told_to_all && !(plan_.whole_heads && is_head(phase))) send_to_all(at, phase, false);
    advance(at, phase);
}

void Run::send_to_all(std::size_t from, std::uint64_t phase, bool result) {
    for (std::size_t step = 1; step < devices_.size(); ++step)
        send(from, (from + step) % devices_.size(), phase, result);
}

// The message waits for what it needs: the sender's I/O thread, its card, the link. Whatever is slowest lets it through
// byte by byte, so the others are busy for as long.
void Run::send(std::size_t from, std::size_t to, std::uint64_t phase, bool result) {
    Device& sender = devices_[from];
    const std::size_t pair = from * devices_.size() + to;
    const plan::SyncLink& link = *links_[pair];
    std::uint64_t bytes = is_head(phase) ? request_.candidate_bytes : request_.model.width * 8;
    if (plan_.exchange == TensorExchange::scatter) bytes = plan::ceil_div(bytes, devices_.size());
    const std::uint64_t rate = link.a == sender.index ? link.a_to_b_bytes_per_s : link.b_to_a_bytes_per_s;
    sender.io_free = std::max(sender.io_free, now_) + static_cast<Time>(sender.figures->message_ns);
    const Time begin = std::max(sender.io_free, sender.egress_free);
    sender.egress_free = begin + time_for(bytes, sender.figures->egress_bytes_per_s);
    const Time on_link = std::max(begin, link_free_[pair]);
    link_free_[pair] = std::max(on_link + time_for(bytes, rate), sender.egress_free);
    const auto delay = static_cast<Time>(link.delay_ns);
    queue_.push(on_link + delay, {Kind::first_byte, to, {phase, result, bytes}, link_free_[pair] + delay});
    ++outcome_.messages;
}

// Whether what has come lets the device go on with an exchange.
void Run::advance(std::size_t at, std::uint64_t phase) {
    Device& device = devices_[at];
    Arrivals& arrivals = device.exchanges[phase];
    const std::size_t others = devices_.size() - 1;
    if (!arrivals.own || arrivals.complete) return;
    if (plan_.whole_heads && is_head(phase)) return complete(at, phase);
    switch (plan_.exchange) {
        case TensorExchange::alone:
            complete(at, phase);
            return;
        case TensorExchange::direct:
            if (arrivals.sums == others) complete(at, phase);
            return;
        case TensorExchange::scatter:
            if (arrivals.sums == others && !arrivals.passed_on) {
                arrivals.passed_on = true;
                send_to_all(at, phase, true);
            }
            if (arrivals.passed_on && arrivals.results == others) complete(at, phase);
            return;
        case TensorExchange::star:
        case TensorExchange::tree:
            if (arrivals.sums == device.children.size() && !arrivals.passed_on) {
                arrivals.passed_on = true;
                if (device.parent == at)
                    arrivals.results = 1;
                else
                    send(at, device.parent, phase, false);
            }
            if (arrivals.results == 0) return;
            for (const std::size_t child : device.children) send(at, child, phase, true);
            complete(at, phase);
            return;
    }
}

void Run::complete(std::size_t at, std::uint64_t phase) {
    Device& device = devices_[at];
    device.exchanges[phase].complete = true;
    device.exchanges.erase(device.exchanges.begin(), device.exchanges.lower_bound(phase));
    outcome_.devices[device.index].waiting_for_others += now_ - device.since;
    if (is_head(phase)) {
        const std::size_t token = phase / phases_of_token();
        if (++token_devices_[token] == devices_.size()) outcome_.token_ends[token] = now_;
    }
    device.phase = phase + 1;
    if (device.phase < last_phase_) queue_.push(now_, {Kind::begin_phase, at});
}

void Run::happen(const Event& event) {
    Device& device = devices_[event.device];
    switch (event.kind) {
        case Kind::begin_phase: {
            const PassPhase& phase = phase_of(device);
            device.part = phase.first_part;
            const Time takes = static_cast<Time>(device.figures->phase_ns) +
                               time_for(phase.pinned_bytes, device.figures->weight_bytes_per_s);
            outcome_.devices[device.index].computing += takes;
            queue_.push(now_ + takes, {Kind::pinned_done, event.device});
            return;
        }
        case Kind::pinned_done:
            multiply_next(event.device);
            return;
        case Kind::part_loaded:
            device.loading = false;
            ++device.loaded;
            load(event.device);
            if (device.waits_for_part) {
                device.waits_for_part = false;
                outcome_.devices[device.index].waiting_for_disk += now_ - device.since;
                multiply_next(event.device);
            }
            return;
        case Kind::part_done:
            device.in_ring -= device.parts[device.part];
            ++device.multiplied;
            ++device.part;
            load(event.device);
            multiply_next(event.device);
            return;
        case Kind::first_byte: {
            const Time begin = std::max(now_, device.ingress_free);
            device.ingress_free = std::max(begin + time_for(event.message.bytes, device.figures->ingress_bytes_per_s),
                                           event.last_byte_at);
            queue_.push(device.ingress_free, {Kind::last_byte, event.device, event.message});
            return;
        }
        case Kind::last_byte:
            device.io_free = std::max(device.io_free, now_) + static_cast<Time>(device.figures->message_ns);
            queue_.push(device.io_free, {Kind::taken, event.device, event.message});
            return;
        case Kind::taken: {
            Arrivals& arrivals = device.exchanges[event.message.phase];
            ++(event.message.result ? arrivals.results : arrivals.sums);
            advance(event.device, event.message.phase);
            return;
        }
    }
}

ServingOutcome Run::finish() {
    for (std::size_t at = 0; at < devices_.size(); ++at) {
        queue_.push(0, {Kind::begin_phase, at});
        load(at);
    }
    while (!queue_.empty()) {
        now_ = queue_.next_at();
        happen(queue_.pop());
    }
    const std::vector<Time>& ends = outcome_.token_ends;
    CHAOS_ASSERT(ends.size() > first_tokens && ends.back() > 0);
    outcome_.token_ns = (ends.back() - ends[first_tokens - 1]) / static_cast<Time>(ends.size() - first_tokens);
    return std::move(outcome_);
}

}  // namespace

ServingOutcome simulate_serving(const plan::TensorRequest& request, const plan::TensorPlan& plan,
                                std::uint32_t tokens) {
    return Run(request, plan, tokens).finish();
}

}  // namespace chaos::sim
