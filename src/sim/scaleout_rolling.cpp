// Our own way: the joiners pull shards from all members at once, by the shard plan, while training goes on.
//
//   members   compute | exchange | compute | exchange | compute | ...        nobody waits; the exchange is slower where
//   donors    shards, shards, shards, shards ......                          shards take a part of a card
//   results            R(s) of what was sent ... R(s+1) .....                from the donor that sent the shard
//   joiner    ------------------------------------------level | verified | share 0 | contributes
//
// A donor that has sent all its shards, or dies, makes the rest be planned again, by measured rates.
#include "sim/scaleout_strategies.h"

#include "base/assert.h"
#include "plan/shard_plan.h"

#include <algorithm>
#include <span>
#include <utility>

namespace chaos::sim {
namespace {

using plan::ByteRange;

constexpr FlowId no_flow = 0xffffffff;
constexpr std::uint64_t shard_bytes = 256 << 10;
constexpr Time settling_round_trips = 2;

// From one member to one joiner.
struct Lane {
    // Shards and results take turns, results first.
    std::vector<ByteRange> ahead;  // of the state, in the order of sending: what `shards` carries or will
    FlowId shards = no_flow;
    std::uint64_t carried = 0;  // bytes of shards, in all
    // The results of the shards that came from here come from here too, and those of a dead donor's shards.
    std::uint64_t inherited = 0;
    FlowId results = no_flow;
    std::uint64_t results_bytes = 0;    // under way
    std::uint64_t results_waiting = 0;  // behind those
};

struct Joining {
    std::vector<Lane> lanes;  // by member
    std::vector<ByteRange> held;
    bool dry = false;    // a donor has just sent the last of its shards
    bool whole = false;  // all shards have arrived
    Time verified = never;
    Time active = never;
};

enum class Phase : std::uint8_t { computing, exchanging, filling, paused };

std::uint64_t total(const std::vector<ByteRange>& ranges) {
    std::uint64_t bytes = 0;
    for (const ByteRange& range : ranges) bytes += range.bytes;
    return bytes;
}

class Rolling {
public:
    Rolling(const Setting& setting, const std::optional<DonorFault>& fault)
        : setting_(setting),
          fault_(fault),
          rhythm_(setting.rhythm),
          flows_(setting.wiring),
          alive_(setting.members, true),
          round_trip_(2 * slowest_delay(setting)) {
        joining_.resize(setting.joiners);
        for (Joining& joining : joining_) joining.lanes.resize(setting.members);
        pull_at_ = setting.requested_at + rolling_set_up_round_trips * round_trip_;
        phase_ends_ = rhythm_.compute;
        fault_at_ = fault ? fault->at : never;
        limit_ = limit_of(setting);
    }

    ScaleOut run() {
        while (!all_active()) {
            const Time next = std::min({phase_ends_, pull_at_, fault_at_, noticed_at_, flows_.next_end()});
            CHAOS_ASSERT(next != never);
            flows_.advance(next);
            for (const FlowId id : flows_.take_ended()) on_end(id);
            if (noticed_at_ == never)
                for (Joining& joining : joining_)
                    if (std::exchange(joining.dry, false)) plan_rest(joining);
            if (fault_at_ <= now()) on_fault();
            if (noticed_at_ <= now()) on_notice();
            if (pull_at_ <= now()) {
                pull_at_ = never;
                pulled_at_ = now();
                plan_shards(joining_);
            }
            if (phase_ends_ <= now()) on_phase_end();
            for (Joining& joining : joining_) look_whether_level(joining);
        }
        return outcome();
    }

private:
    [[nodiscard]] Time now() const { return flows_.now(); }
    [[nodiscard]] Time survivors() const { return std::count(alive_.begin(), alive_.end(), true); }
    [[nodiscard]] bool all_active() const {
        return std::all_of(joining_.begin(), joining_.end(), [&](const Joining& j) { return j.active <= now(); });
    }
    [[nodiscard]] Host host_of(const Joining& joining) const {
        return setting_.joiner(static_cast<Host>(&joining - joining_.data()));
    }
    [[nodiscard]] std::uint32_t lane_weight() const { return std::max(state_weight / setting_.joiners, 1U); }

    // --- shards ---

    // Notes what of `ahead` has been sent. The shard under way stays its donor's, unless that is dead.
    void note_sent(Joining& joining, Lane& lane) {
        if (lane.shards == no_flow) return;
        std::uint64_t sent = flows_.sent(lane.shards);
        lane.carried += sent;
        flows_.stop(lane.shards);
        lane.shards = no_flow;
        std::vector<ByteRange> rest;
        for (const ByteRange& range : lane.ahead) {
            const std::uint64_t here = std::min(sent, range.bytes);
            sent -= here;
            if (here > 0) plan::hold(joining.held, {range.first, here});
            if (here < range.bytes) rest.push_back({range.first + here, range.bytes - here});
        }
        lane.ahead = std::move(rest);
    }

    // What remains of the shard that is being sent.
    [[nodiscard]] ByteRange under_way(const Lane& lane) const {
        if (lane.ahead.empty() || lane.ahead.front().first % shard_bytes == 0) return {};
        const ByteRange& first = lane.ahead.front();
        return {first.first, std::min(first.bytes, shard_bytes - first.first % shard_bytes)};
    }

    [[nodiscard]] std::uint64_t measured_rate(const Lane& lane, Host member, Host joiner) const {
        const std::uint64_t link = setting_.wiring.rate(member, joiner);
        const auto passed = static_cast<std::uint64_t>(now() - pulled_at_);
        if (passed == 0 || lane.carried == 0) return evenly(link, joiner);
        return std::clamp<std::uint64_t>(plan::mul_div(lane.carried, plan::ns_per_s, passed), 1, link);
    }

    // Where all links together carry more than the joiner can take, any few of them would do, but each donor's card is
    // needed for gradients too: all are asked, in proportion.
    [[nodiscard]] std::uint64_t evenly(std::uint64_t link, Host joiner) const {
        std::uint64_t all = 0;
        for (Host member = 0; member < setting_.members; ++member)
            if (alive_[member]) all += setting_.wiring.rate(member, joiner);
        return plan::mul_div(link, std::min(all, setting_.wiring.cards[joiner].ingress_bytes_per_s), all);
    }

    // Plans what these joiners still miss and starts the flows.
    void plan_shards(std::span<Joining> joinings) {
        const Wiring& wiring = setting_.wiring;
        plan::ShardRequest request;
        request.state_bytes = setting_.state_bytes;
        request.shard_sizes = {shard_bytes};
        for (Host member = 0; member < setting_.members; ++member) {
            if (alive_[member])
                request.donors.push_back({.id = member, .egress_bytes_per_s = wiring.cards[member].egress_bytes_per_s});
        }
        for (Joining& joining : joinings) {
            if (joining.whole) continue;
            const Host host = host_of(joining);
            plan::ShardJoiner joiner;
            joiner.id = host;
            joiner.ingress_bytes_per_s = wiring.cards[host].ingress_bytes_per_s;
            for (Host member = 0; member < setting_.members; ++member) {
                Lane& lane = joining.lanes[member];
                note_sent(joining, lane);
                if (!alive_[member]) continue;
                const ByteRange current = under_way(lane);
                lane.ahead.clear();
                if (current.bytes > 0) lane.ahead.push_back(current);
                const std::uint64_t rate = measured_rate(lane, member, host);
                joiner.links.push_back({member, rate, plan::transfer_ns(current.bytes + results_left(lane), rate)});
            }
            joiner.held = joining.held;
            for (const Lane& lane : joining.lanes)
                for (const ByteRange& range : lane.ahead) plan::hold(joiner.held, range);
            if (total(joiner.held) < setting_.state_bytes) request.joiners.push_back(std::move(joiner));
        }
        if (!request.joiners.empty()) {
            const auto plan = plan::plan_shards(request);
            CHAOS_ASSERT(plan.ok());
            for (const plan::Transfer& transfer : plan->transfers)
                for (const plan::ShardRange& range : transfer.ranges)
                    add(joining_[transfer.joiner - setting_.members].lanes[transfer.donor], range);
        }
        for (Joining& joining : joinings)
            for (Host member = 0; member < setting_.members; ++member) go_on(joining, member);
    }

    // Starts what the lane is to send next.
    void go_on(Joining& joining, Host member) {
        Lane& lane = joining.lanes[member];
        if (!alive_[member] || lane.results != no_flow) return;
        if (lane.results_waiting > 0) {
            note_sent(joining, lane);
            lane.results_bytes = std::exchange(lane.results_waiting, 0);
            lane.results = flows_.start(Flow{member, host_of(joining), lane.results_bytes, lane_weight()});
        } else if (lane.shards == no_flow && !lane.ahead.empty()) {
            lane.shards = flows_.start(Flow{member, host_of(joining), total(lane.ahead), lane_weight()});
        }
    }

    void add(Lane& lane, const plan::ShardRange& range) const {
        const std::uint64_t first = range.first * shard_bytes;
        const std::uint64_t end = std::min((range.first + range.count) * shard_bytes, setting_.state_bytes);
        lane.ahead.push_back({first, end - first});
    }

    // A donor has nothing left to send. The rest is divided anew where somebody else has more left than a round trip.
    void plan_rest(Joining& joining) {
        const Host host = host_of(joining);
        for (Host member = 0; member < setting_.members; ++member) {
            const Lane& lane = joining.lanes[member];
            if (lane.ahead.empty()) continue;
            const std::uint64_t left = total(lane.ahead) - (lane.shards == no_flow ? 0 : flows_.sent(lane.shards));
            const auto needs = static_cast<Time>(plan::transfer_ns(left, setting_.wiring.rate(member, host)));
            if (left <= 2 * shard_bytes || needs <= 2 * setting_.wiring.delay(member, host)) continue;
            plan_shards({&joining, 1});
            return;
        }
    }

    void on_end(FlowId id) {
        for (Joining& joining : joining_) {
            for (Host member = 0; member < setting_.members; ++member) {
                Lane& lane = joining.lanes[member];
                if (lane.shards == id) {
                    note_sent(joining, lane);
                    joining.dry = true;
                    joining.whole = total(joining.held) == setting_.state_bytes;
                    if (joining.whole) transfer_ended_ = now();
                    return;
                }
                if (lane.results == id) {
                    lane.results = no_flow;
                    go_on(joining, member);
                    return;
                }
            }
        }
        CHAOS_ASSERT(id == exchange_);
        phase_ = Phase::filling;
        phase_ends_ = now() + rhythm_.fill;
    }

    // --- results ---

    [[nodiscard]] std::uint64_t results_left(const Lane& lane) const {
        if (lane.results == no_flow) return lane.results_waiting;
        return lane.results_waiting + lane.results_bytes - flows_.sent(lane.results);
    }
    [[nodiscard]] std::uint64_t backlog_of(const Joining& joining) const {
        std::uint64_t bytes = 0;
        for (const Lane& lane : joining.lanes) bytes += results_left(lane);
        return bytes;
    }

    // R(s) for what each donor has sent, the shard under way included: it is older than R(s).
    void follow_up(Joining& joining) {
        for (Host member = 0; member < setting_.members; ++member) {
            Lane& lane = joining.lanes[member];
            std::uint64_t sent = lane.inherited + lane.carried;
            if (lane.shards != no_flow) sent += flows_.sent(lane.shards) + shard_bytes;
            sent = std::min(sent, setting_.state_bytes);
            lane.results_waiting += plan::mul_div(setting_.result_bytes, sent, setting_.state_bytes);
            go_on(joining, member);
        }
    }

    void look_whether_level(Joining& joining) {
        if (!joining.whole || joining.verified != never || backlog_of(joining) > 0) return;
        Time delay = 0;
        for (Host member = 0; member < setting_.members; ++member)
            delay = std::max(delay, setting_.wiring.delay(member, host_of(joining)));
        joining.verified = now() + delay;  // donors told the root of each step with its result
        const bool all =
            std::all_of(joining_.begin(), joining_.end(), [](const Joining& j) { return j.verified != never; });
        if (phase_ == Phase::paused && all) begin_step();
    }

    // --- steps ---

    void begin_step() {
        phase_ = Phase::computing;
        phase_ends_ = now() + rhythm_.compute;
    }

    void begin_exchange() {
        phase_ = Phase::exchanging;
        phase_ends_ = never;
        if (noticed_at_ != never) return;  // a member is dead that nobody misses yet: it gets nowhere
        if (rhythm_.exchange.bytes > 0) {
            exchange_ = flows_.start(rhythm_.exchange);
        } else {  // a member alone
            phase_ = Phase::filling;
            phase_ends_ = now();
        }
    }

    void on_phase_end() {
        if (phase_ == Phase::computing) {
            // The lost member's samples are computed by the others, once the settlement is known.
            if (redo_from_ != never) {
                phase_ends_ = std::max(now(), redo_from_) + rhythm_.compute / survivors();
                redo_from_ = never;
                return;
            }
            begin_exchange();
            return;
        }
        // The step is done.
        members_idle_ += survivors() * std::max<Time>(now() - step_began_ - rhythm_.step(), 0);
        step_began_ = now();
        for (Joining& joining : joining_) {
            if (pulled_at_ == never || joining.active != never) continue;
            follow_up(joining);
            // The view that lets it in was agreed on meanwhile.
            if (joining.verified != never && joining.verified + round_trip_ <= now()) joining.active = now();
        }
        if (better_to_wait()) {
            phase_ = Phase::paused;
            phase_ends_ = never;
        } else {
            begin_step();
        }
    }

    // Results may come almost as fast as they can be carried, and leave little for shards. Members wait for the joiners
    // where that costs fewer node-seconds than the joiners' waiting.
    [[nodiscard]] bool better_to_wait() {
        std::uint64_t left = 0;
        Time waiting = 0;
        for (const Joining& joining : joining_) {
            if (joining.verified != never) continue;
            ++waiting;
            left += setting_.state_bytes - total_held(joining) + backlog_of(joining);
        }
        if (pulled_at_ == never || waiting == 0) return false;
        const std::uint64_t before = std::exchange(left_, left);
        const Time step = now() - std::exchange(left_at_, now());
        if (before == 0) return false;
        if (left >= before) return true;
        const std::uint64_t rate =
            plan::mul_div(setting_.state_bytes * setting_.joiners, plan::ns_per_s, static_cast<std::uint64_t>(limit_));
        const auto if_paused = static_cast<Time>(plan::transfer_ns(left, rate));
        const auto if_not = static_cast<Time>(plan::mul_div(left, static_cast<std::uint64_t>(step), before - left));
        return survivors() * if_paused < waiting * (if_not - if_paused);
    }

    [[nodiscard]] std::uint64_t total_held(const Joining& joining) const {
        std::uint64_t bytes = total(joining.held);
        for (const Lane& lane : joining.lanes)
            if (lane.shards != no_flow) bytes += flows_.sent(lane.shards);
        return std::min(bytes, setting_.state_bytes);
    }

    // --- a donor dies ---

    void on_fault() {
        fault_at_ = never;
        noticed_at_ = now() + slowest_delay(setting_);
        alive_[fault_->member] = false;
        for (Joining& joining : joining_) {
            Lane& lane = joining.lanes[fault_->member];
            note_sent(joining, lane);
            lane.ahead.clear();
            lane.results_waiting = results_left(lane);
            if (lane.results != no_flow) flows_.stop(std::exchange(lane.results, no_flow));
        }
        if (phase_ == Phase::exchanging) flows_.stop(exchange_);
    }

    // The others know of it: settle the step, divide what it was to send.
    void on_notice() {
        noticed_at_ = never;
        const Time settled = now() + settling_round_trips * round_trip_;
        rhythm_ = plan_rhythm(setting_, rhythm_.compute, fault_->member);
        if (phase_ == Phase::computing) {
            redo_from_ = settled;
        } else if (phase_ == Phase::exchanging) {
            phase_ = Phase::computing;
            phase_ends_ = settled + rhythm_.compute / survivors();
        }
        const auto heirs = static_cast<std::uint64_t>(survivors());
        for (Joining& joining : joining_) {
            Lane& dead = joining.lanes[fault_->member];
            const std::uint64_t inherited = plan::ceil_div(dead.inherited + dead.carried, heirs);
            const std::uint64_t waiting = plan::ceil_div(dead.results_waiting, heirs);
            dead = {};
            for (Host member = 0; member < setting_.members; ++member) {
                if (!alive_[member]) continue;
                joining.lanes[member].inherited += inherited;
                joining.lanes[member].results_waiting += waiting;
                go_on(joining, member);
            }
        }
        if (pulled_at_ != never) plan_shards(joining_);
    }

    [[nodiscard]] ScaleOut outcome() const {
        ScaleOut outcome;
        for (const Joining& joining : joining_) {
            outcome.delay = std::max(outcome.delay, joining.verified - setting_.requested_at);
            // It goes along for one step with share 0 before it contributes.
            outcome.joiners_idle += joining.active + rhythm_.step() - setting_.requested_at;
        }
        outcome.members_idle = members_idle_;
        const std::vector<Lane>& lanes = joining_.front().lanes;
        const auto most = std::max_element(lanes.begin(), lanes.end(),
                                           [](const Lane& x, const Lane& y) { return x.carried < y.carried; });
        outcome.worst_fault = {.at = pulled_at_ + (transfer_ended_ - pulled_at_) / 2,
                               .member = static_cast<Host>(most - lanes.begin())};
        return outcome;
    }

    const Setting& setting_;
    std::optional<DonorFault> fault_;
    Rhythm rhythm_;
    Flows flows_;
    std::vector<bool> alive_;
    Time round_trip_;
    std::vector<Joining> joining_;

    Phase phase_ = Phase::computing;
    Time phase_ends_ = never;
    Time step_began_ = 0;
    FlowId exchange_ = no_flow;
    Time redo_from_ = never;
    std::uint64_t left_ = 0;  // for the joiners to receive, at the last step's end
    Time left_at_ = 0;
    Time limit_;

    Time pull_at_ = never;
    Time pulled_at_ = never;
    Time transfer_ended_ = never;
    Time fault_at_ = never;
    Time noticed_at_ = never;
    Time members_idle_ = 0;
};

}  // namespace

ScaleOut roll_shards(const Setting& setting, const std::optional<DonorFault>& fault) {
    return Rolling(setting, fault).run();
}

}  // namespace chaos::sim
