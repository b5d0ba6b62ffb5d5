#include "elastic/joiner.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace chaos::elastic {
namespace {

using state::ShardSpan;
using std::chrono::milliseconds;

constexpr double ask_seconds = 0.05;   // worth of one ask
constexpr double ahead_seconds = 0.2;  // worth of all asks to one donor, and twice the round trip
constexpr double first_guess_bytes_per_s = 4e6;
constexpr std::uint64_t most_ask_bytes = 8 << 20;
constexpr std::uint64_t most_ahead_bytes = 48 << 20;
constexpr std::uint64_t results_ahead = 2;
constexpr std::uint64_t most_steps_behind = 8;  // that one's own state is worth following from
constexpr double rate_gain = 0.5;
constexpr double rate_seconds = 0.1;      // of arrivals that make a rate: what comes first may be a burst
constexpr double most_duplicated = 0.03;  // of the state
constexpr milliseconds look_interval{250};
constexpr milliseconds shard_patience{3000};  // without anything from that donor
constexpr milliseconds root_patience{3000};
constexpr milliseconds last_root_patience{250};  // when nothing else is missing
constexpr milliseconds refusal_pause{50};
constexpr std::uint64_t least_steps_of_pace = 3;
constexpr double least_seconds_of_pace = 1.0;
constexpr double pause_margin = 2.0;  // on what it should take

double seconds_between(std::chrono::steady_clock::time_point a, std::chrono::steady_clock::time_point b) {
    return std::chrono::duration<double>(b - a).count();
}

}  // namespace

Joiner::Joiner(asio::io_context& loop, ComputeThread& thread, Steps& steps, Trainer& trainer,
               const state::Shards& shards, Callbacks callbacks)
    : loop_(loop),
      thread_(thread),
      steps_(steps),
      trainer_(trainer),
      shards_(shards),
      callbacks_(std::move(callbacks)),
      timer_(loop) {}

Joiner::~Joiner() {
    *alive_ = false;
}

void Joiner::begin(const cluster::View& view, const std::optional<StateLabel>& have) {
    verified_ = false;
    pause();
    // Whoever was away for long, or has never been there, would only be told that nobody has those results any more.
    const bool near = have && have->applied + most_steps_behind >= view.first_step;
    if (states_.empty() || have) {
        states_.assign(shards_.count(), {});
        if (near)
            for (Shard& state : states_)
                state = {.stage = Shard::Stage::here,
                         .job = 0,
                         .label = *have,
                         .asked_to = have->applied,
                         .refusals = 0,
                         .origin = {},
                         .donor = {}};
    }
    progress_ = {};
    pace_ = {};
    duplicated_bytes_ = 0;
    received_before_ = steps_.transfers().received_bytes();
    go_on(view);
}

void Joiner::go_on(const cluster::View& view) {
    CHAOS_ASSERT(!running_ && !states_.empty());
    running_ = true;
    adopted(view);
    look();
    look_again(look_interval);
}

void Joiner::pause() {
    end_pause();
    running_ = false;
    timer_.cancel();
    for (const auto& [transfer, fetch] : fetches_) steps_.transfers().forget(transfer);
    fetches_.clear();
    parts_.clear();
    donors_.clear();
    roots_.clear();
    own_hashes_.clear();
    if (!verified_) looked_at_.reset();
    for (Shard& state : states_) {
        if (state.stage == Shard::Stage::asked) state.stage = Shard::Stage::missing;
        state.asked_to = state.label.applied;
    }
}

void Joiner::stop() {
    pause();
    ++sync_;
    states_.clear();
    looked_at_.reset();
}

std::optional<StateLabel> Joiner::whole() const {
    if (states_.empty()) return std::nullopt;
    const StateLabel& first = states_.front().label;
    const bool one = std::ranges::all_of(states_, [&](const Shard& state) {
        return state.stage == Shard::Stage::here && state.job == 0 && state.label.applied == first.applied &&
               state.label.lineage == first.lineage;
    });
    return one ? std::optional(first) : std::nullopt;
}

Joiner::Progress Joiner::progress() const {
    Progress now = progress_;
    now.received_bytes = steps_.transfers().received_bytes() - received_before_;
    now.of = static_cast<std::uint32_t>(states_.size());
    now.shards = static_cast<std::uint32_t>(std::ranges::count(states_, Shard::Stage::here, &Shard::stage));
    return now;
}

// ---- donors

Joiner::DonorState* Joiner::find(NodeId node) {
    const auto found = std::ranges::find(donors_, node, &DonorState::node);
    return found == donors_.end() ? nullptr : &*found;
}

void Joiner::adopted(const cluster::View& view) {
    // Who leaves follows by its donors to the steps that it was let in for.
    if (!running_ || view.find(member_->id()) == nullptr) return;
    std::vector<NodeId> neighbours = view.neighbours(member_->id());
    std::erase_if(neighbours, [&](NodeId node) { return !view.is_active(node); });
    std::vector<NodeId> gone;
    for (const DonorState& donor : donors_)
        if (std::ranges::find(neighbours, donor.node) == neighbours.end()) gone.push_back(donor.node);
    for (const NodeId node : gone) {
        link_down(node);
        std::erase_if(donors_, [&](const DonorState& donor) { return donor.node == node; });
    }
    for (const NodeId node : neighbours) {
        if (find(node) != nullptr) continue;
        DonorState donor;
        donor.node = node;
        const cluster::LinkInfo* link = view.find(cluster::link_between(node, member_->id()));
        if (link != nullptr)
            donor.bytes_per_s = 1000.0 * (link->id.a == node ? link->figures.rate_ab : link->figures.rate_ba);
        donors_.push_back(donor);
        if (member_->links().linked(node)) link_up(node);
    }
}

void Joiner::link_up(NodeId peer) {
    DonorState* donor = running_ ? find(peer) : nullptr;
    if (donor == nullptr || donor->linked) return;
    donor->linked = true;
    donor->last_arrival = Clock::now();
    divide();
    ask_roots(true);
    follow();
    pull();
}

void Joiner::link_down(NodeId peer) {
    DonorState* donor = running_ ? find(peer) : nullptr;
    if (donor == nullptr) return;
    donor->linked = false;
    if (pause_ && pause_->donor == peer) pause_.reset();
    std::vector<std::uint64_t> lost;
    for (const auto& [transfer, fetch] : fetches_)
        if (fetch.donor == peer) lost.push_back(transfer);
    for (const std::uint64_t transfer : lost) give_up(transfer);
    donor->asked_bytes = 0;
    std::erase_if(roots_, [&](const Root& root) { return root.donor == peer; });
    divide();
    follow();
    pull();
}

// What was asked for will not come.
void Joiner::give_up(std::uint64_t transfer) {
    const auto at = fetches_.find(transfer);
    const Fetch fetch = std::move(at->second);
    fetches_.erase(at);
    steps_.transfers().forget(transfer);
    if (DonorState* donor = find(fetch.donor); donor != nullptr && !fetch.step)
        donor->asked_bytes -= std::min(donor->asked_bytes, shards_.floats(fetch.span) * sizeof(float));
    for (std::uint32_t i = fetch.span.first; i < fetch.span.first + fetch.span.count; ++i) {
        Shard& state = states_[i];
        if (fetch.step) {
            if (state.stage == Shard::Stage::here) state.asked_to = std::min(state.asked_to, *fetch.step);
        } else if (state.stage == Shard::Stage::asked) {
            const bool elsewhere = std::ranges::any_of(fetches_, [&](const auto& entry) {
                const Fetch& other = entry.second;
                return !other.step && other.span.first <= i && i < other.span.first + other.span.count;
            });
            if (!elsewhere) state.stage = Shard::Stage::missing;
        }
    }
}

// How long the next of its shards takes, as far as known.
double Joiner::ask_seconds_of(const DonorState& donor) const {
    const auto shard_bytes = static_cast<double>(shards_.floats({.first = 0, .count = 1}) * sizeof(float));
    return donor.bytes_per_s > 0.0 ? shard_bytes / donor.bytes_per_s : 0.0;
}

// Regions in proportion to what is known of the links.
void Joiner::divide() {
    double total = 0.0;
    const auto weight = [](const DonorState& donor) {
        return donor.linked && !donor.blamed ? std::max(donor.bytes_per_s, 1.0) : 0.0;
    };
    for (const DonorState& donor : donors_) total += weight(donor);
    double before = 0.0;
    const auto count = static_cast<double>(shards_.count());
    for (DonorState& donor : donors_) {
        const double own = weight(donor);
        if (own == 0.0) continue;
        const auto first = static_cast<std::uint32_t>(std::floor(before / total * count));
        before += own;
        const auto end = static_cast<std::uint32_t>(std::floor(before / total * count));
        donor.region = {.first = first, .count = std::min(end, shards_.count()) - first};
    }
}

// ---- pulling shards

// Keeps every donor busy.
void Joiner::pull() {
    if (!running_) return;
    for (bool asked = true; asked;) {
        asked = false;
        for (DonorState& donor : donors_) {
            if (!donor.linked || donor.blamed) continue;
            if (Clock::now() < donor.refused_until) continue;
            const double rate = rate_of(donor);
            const double round_trip =
                std::chrono::duration<double>(member_->links().figures(donor.node).round_trips.mean()).count();
            const auto ahead =
                std::min(static_cast<std::uint64_t>((ahead_seconds + 2.0 * round_trip) * rate), most_ahead_bytes);
            if (donor.asked_bytes > 0 && donor.asked_bytes >= ahead) continue;
            const auto worth = std::min(static_cast<std::uint64_t>(ask_seconds * rate), most_ask_bytes);
            const std::uint64_t shard_bytes = shards_.floats({.first = 0, .count = 1}) * sizeof(float);
            const auto most = static_cast<std::uint32_t>(std::max<std::uint64_t>(worth / shard_bytes, 1));
            ShardSpan span = is_left_to_others(donor) ? ShardSpan{} : next_for(donor, most);
            if (span.count == 0 && donor.asked_bytes == 0) span = duplicate_for(donor);
            if (span.count == 0) continue;
            ask_shards(donor, span);
            asked = true;
        }
    }
}

double Joiner::rate_of(const DonorState& donor) {
    return donor.bytes_per_s > 0.0 ? donor.bytes_per_s : first_guess_bytes_per_s;
}

// In the end slow donors leave the rest to fast ones: somebody else would be done with all that is missing before this
// one is with its next shard.
bool Joiner::is_left_to_others(const DonorState& donor) const {
    const auto shard_bytes = static_cast<double>(shards_.floats({.first = 0, .count = 1}) * sizeof(float));
    const auto missing = static_cast<double>(std::ranges::count(states_, Shard::Stage::missing, &Shard::stage));
    const auto seconds = [&](const DonorState& one, double shards) {
        return (static_cast<double>(one.asked_bytes) + shards * shard_bytes) / rate_of(one);
    };
    const double own = seconds(donor, 1.0);
    const auto now = Clock::now();
    return std::ranges::any_of(donors_, [&](const DonorState& other) {
        const bool late = other.asked_bytes > 0 &&
                          seconds_between(other.last_arrival, now) > ahead_seconds + 2.0 * shard_bytes / rate_of(other);
        return other.node != donor.node && other.linked && !other.blamed && now >= other.refused_until && !late &&
               seconds(other, missing) < own;
    });
}

// The next missing shards of its region; then the last ones of the region where most is missing.
ShardSpan Joiner::next_for(const DonorState& donor, std::uint32_t most) const {
    const auto missing = [&](std::uint32_t i) { return states_[i].stage == Shard::Stage::missing; };
    const auto from = [&](std::uint32_t first, std::uint32_t end) -> ShardSpan {
        while (first < end && !missing(first)) ++first;
        std::uint32_t last = first;
        while (last < end && last - first < most && missing(last)) ++last;
        return {.first = first, .count = last - first};
    };
    if (const ShardSpan own = from(donor.region.first, donor.region.first + donor.region.count); own.count > 0)
        return own;
    const DonorState* behind = nullptr;
    double longest = 0.0;
    for (const DonorState& other : donors_) {
        if (other.node == donor.node) continue;
        std::uint32_t left = 0;
        for (std::uint32_t i = other.region.first; i < other.region.first + other.region.count; ++i)
            left += missing(i) ? 1 : 0;
        const double rate = other.linked && !other.blamed ? std::max(other.bytes_per_s, 1.0) : 1.0;
        if (left > 0 && left / rate > longest) {
            longest = left / rate;
            behind = &other;
        }
    }
    if (behind == nullptr) return from(0, shards_.count());
    std::uint32_t end = behind->region.first + behind->region.count;
    while (!missing(end - 1)) --end;
    std::uint32_t first = end;
    while (first > behind->region.first && end - first < most && missing(first - 1)) --first;
    return {.first = first, .count = end - first};
}

// Everything was asked for. What would take another donor much longer than this one is asked for twice.
ShardSpan Joiner::duplicate_for(const DonorState& donor) {
    const double rate = std::max(donor.bytes_per_s, 1.0);
    const auto now = Clock::now();
    const Fetch* slowest = nullptr;
    double longest = 0.0;
    for (const auto& [transfer, fetch] : fetches_) {
        if (fetch.step || fetch.donor == donor.node || fetch.content) continue;
        const DonorState* other = find(fetch.donor);
        const bool here = std::ranges::all_of(states_.begin() + fetch.span.first,
                                              states_.begin() + fetch.span.first + fetch.span.count,
                                              [](const Shard& one) { return one.stage == Shard::Stage::here; });
        const bool twice = std::ranges::any_of(fetches_, [&](const auto& entry) {
            return !entry.second.step && entry.second.donor != fetch.donor && entry.second.span == fetch.span;
        });
        if (other == nullptr || here || twice) continue;
        const double bytes = static_cast<double>(shards_.floats(fetch.span) * sizeof(float));
        const double left = static_cast<double>(other->asked_bytes) / std::max(other->bytes_per_s, 1.0) -
                            seconds_between(other->last_arrival, now);
        const double stuck = seconds_between(fetch.asked_at, now);
        const double needed = std::max(left, 0.25 * stuck);
        if (needed > 2.0 * bytes / rate && needed > longest) {
            longest = needed;
            slowest = &fetch;
        }
    }
    if (slowest == nullptr) return {};
    const std::uint64_t bytes = shards_.floats(slowest->span) * sizeof(float);
    const std::uint64_t all = shards_.floats({.first = 0, .count = shards_.count()}) * sizeof(float);
    if (static_cast<double>(duplicated_bytes_ + bytes) > most_duplicated * static_cast<double>(all)) return {};
    duplicated_bytes_ += bytes;
    return slowest->span;
}

void Joiner::ask_shards(DonorState& donor, ShardSpan span) {
    const std::uint64_t bytes = shards_.floats(span) * sizeof(float);
    auto number = std::make_shared<std::uint64_t>(0);
    *number = steps_.transfers().expect(donor.node, bytes, [this, number](const Transfers::Arrived& arrived) {
        fetches_.at(*number).content = arrived;
        complete(*number);
    });
    Fetch fetch;
    fetch.donor = donor.node;
    fetch.span = span;
    fetch.asked_at = Clock::now();
    fetches_.emplace(*number, std::move(fetch));
    if (donor.asked_bytes == 0) {
        donor.last_arrival = donor.window_begun = Clock::now();
        donor.window_bytes = 0;
    }
    donor.asked_bytes += bytes;
    for (std::uint32_t i = span.first; i < span.first + span.count; ++i)
        if (states_[i].stage == Shard::Stage::missing) states_[i].stage = Shard::Stage::asked;
    wire::Work message;
    wire::ShardAsk& ask = *message.mutable_shard_ask();
    ask.set_transfer(*number);
    ask.set_first(span.first);
    ask.set_count(span.count);
    (void)member_->links().send_work(donor.node, bytes_of(message));  // no link: link_down follows
}

void Joiner::received(NodeId from, const wire::ShardAnswer& answer) {
    const auto at = fetches_.find(answer.transfer());
    if (at == fetches_.end() || at->second.donor != from || at->second.step) return;
    const std::optional<cluster::Name> lineage = name_from(answer.lineage());
    if (answer.absent() || !lineage) {
        // It may not have heard yet that this node joins.
        if (DonorState* donor = find(from)) donor->refused_until = Clock::now() + refusal_pause;
        give_up(answer.transfer());
        look_again(refusal_pause);
        return pull();
    }
    at->second.answered = true;
    at->second.label = {.applied = answer.applied(), .lineage = *lineage};
    if (pace_.newest == 0) {
        pace_.first = Clock::now();
        pace_.applied = answer.applied();
    }
    pace_.newest = std::max(pace_.newest, answer.applied());
    complete(answer.transfer());
}

// The answer and what follows it come by different ways.
void Joiner::complete(std::uint64_t transfer) {
    const auto at = fetches_.find(transfer);
    if (!at->second.answered || !at->second.content) return;
    Fetch fetch = std::move(at->second);
    fetches_.erase(at);
    if (fetch.step) {
        take_part(std::move(fetch));
    } else {
        take_shards(std::move(fetch));
    }
}

void Joiner::take_shards(Fetch fetch) {
    const std::uint64_t bytes = shards_.floats(fetch.span) * sizeof(float);
    progress_.shard_bytes += bytes;
    if (DonorState* donor = find(fetch.donor)) {
        donor->asked_bytes -= std::min(donor->asked_bytes, bytes);
        const auto now = Clock::now();
        donor->window_bytes += bytes;
        const double took = seconds_between(donor->window_begun, now);
        if (took >= rate_seconds) {
            const double rate = static_cast<double>(donor->window_bytes) / took;
            donor->bytes_per_s += (donor->bytes_per_s > 0.0 ? rate_gain : 1.0) * (rate - donor->bytes_per_s);
            donor->window_bytes = 0;
            donor->window_begun = now;
        }
        donor->last_arrival = now;
    }
    if (fetch.content->count == bytes) {
        // Some may have come from another donor meanwhile.
        std::vector<std::uint32_t> wanted;
        const std::uint64_t id = ++jobs_;
        for (std::uint32_t i = fetch.span.first; i < fetch.span.first + fetch.span.count; ++i) {
            if (states_[i].stage == Shard::Stage::here) continue;
            states_[i] = {.stage = Shard::Stage::here,
                          .job = id,
                          .label = fetch.label,
                          .asked_to = fetch.label.applied,
                          .refusals = 0,
                          .origin = fetch.donor,
                          .donor = fetch.donor};
            wanted.push_back(i);
        }
        const auto job = std::make_shared<Fetch>(std::move(fetch));
        thread_.change(
            [this, job, wanted] {
                const std::span<const float> floats(reinterpret_cast<const float*>(job->content->bytes.get()),
                                                    job->content->count / sizeof(float));
                std::size_t next = 0;
                for (std::uint32_t i = job->span.first; i < job->span.first + job->span.count; ++i) {
                    if (next == wanted.size() || wanted[next] != i) continue;
                    ++next;
                    const std::uint64_t before =
                        i == job->span.first ? 0
                                             : shards_.floats({.first = job->span.first, .count = i - job->span.first});
                    shards_.copy_in(floats.subspan(before, shards_.floats({.first = i, .count = 1})),
                                    {.first = i, .count = 1}, trainer_.engine().arena());
                }
            },
            [this, wanted, id, sync = sync_, alive = alive_] {
                if (!*alive || sync != sync_) return;
                for (const std::uint32_t i : wanted)
                    if (states_[i].job == id) states_[i].job = 0;
                roll();
                follow();
                look();
            });
    } else {
        callbacks_.note(cluster::brief(fetch.donor) + " sent shards of another length");
        for (std::uint32_t i = fetch.span.first; i < fetch.span.first + fetch.span.count; ++i)
            if (states_[i].stage == Shard::Stage::asked) states_[i].stage = Shard::Stage::missing;
        if (DonorState* donor = find(fetch.donor)) donor->blamed = true;
    }
    follow();
    pull();
}

// ---- following

// Asks for the results that shards need next, some steps ahead: of whoever gave them, or whoever is there.
void Joiner::follow() {
    if (!running_) return;
    for (std::uint32_t first = 0; first < states_.size();) {
        const Shard& begin = states_[first];
        if (begin.stage != Shard::Stage::here || begin.asked_to >= begin.label.applied + results_ahead) {
            ++first;
            continue;
        }
        if (is_asked(first, begin.asked_to)) {
            ++states_[first].asked_to;
            continue;
        }
        DonorState* donor = find(begin.donor);
        if (donor == nullptr || !donor->linked || donor->blamed) {
            std::vector<DonorState*> others;
            for (DonorState& other : donors_)
                if (other.linked && !other.blamed) others.push_back(&other);
            if (others.empty()) return;
            donor = others[first * others.size() / states_.size()];
        }
        std::uint32_t end = first + 1;
        while (end < states_.size() && states_[end].stage == Shard::Stage::here && states_[end].donor == begin.donor &&
               states_[end].asked_to == begin.asked_to && states_[end].label.applied == begin.label.applied &&
               shards_.in_result({.first = first, .count = end + 1 - first}).count() * sizeof(float) <= most_ask_bytes)
            ++end;
        const ShardSpan span{.first = first, .count = end - first};
        const std::uint64_t step = begin.asked_to;
        for (std::uint32_t i = first; i < end; ++i) {
            states_[i].asked_to = step + 1;
            states_[i].donor = donor->node;
        }
        ask_part(*donor, span, step);
        // The same shards again, for the step after.
    }
}

// Its part of that result is on its way, or here.
bool Joiner::is_asked(std::uint32_t shard, std::uint64_t step) const {
    const auto covers = [&](ShardSpan span) { return span.first <= shard && shard < span.first + span.count; };
    return std::ranges::any_of(
               fetches_, [&](const auto& entry) { return entry.second.step == step && covers(entry.second.span); }) ||
           std::ranges::any_of(parts_, [&](const Part& part) { return part.step == step && covers(part.span); });
}

void Joiner::ask_part(DonorState& donor, ShardSpan span, std::uint64_t step) {
    const std::uint64_t bytes = shards_.in_result(span).count() * sizeof(float);
    auto number = std::make_shared<std::uint64_t>(0);
    *number = steps_.transfers().expect(donor.node, bytes, [this, number](const Transfers::Arrived& arrived) {
        fetches_.at(*number).content = arrived;
        complete(*number);
    });
    Fetch fetch;
    fetch.donor = donor.node;
    fetch.span = span;
    fetch.step = step;
    fetch.asked_at = Clock::now();
    fetches_.emplace(*number, std::move(fetch));
    wire::Work message;
    wire::PartAsk& ask = *message.mutable_part_ask();
    ask.set_transfer(*number);
    ask.set_step(step);
    ask.set_first(span.first);
    ask.set_count(span.count);
    (void)member_->links().send_work(donor.node, bytes_of(message));  // no link: link_down follows
}

void Joiner::received(NodeId from, const wire::PartAnswer& answer) {
    const auto at = fetches_.find(answer.transfer());
    if (at == fetches_.end() || at->second.donor != from || !at->second.step) return;
    Fetch& fetch = at->second;
    const std::optional<cluster::Name> before = name_from(answer.before());
    const std::optional<state::StepRecord> record = record_from(answer.record());
    if (!answer.absent() && before && record && record->step == *fetch.step) {
        fetch.answered = true;
        fetch.label = {.applied = *fetch.step, .lineage = *before};
        fetch.record = *record;
        return complete(answer.transfer());
    }
    // Somebody else may have it; else it is too late for these: they are pulled again.
    const ShardSpan span = fetch.span;
    const std::uint64_t step = *fetch.step;
    give_up(answer.transfer());
    const NodeId other = linked_after(from);
    const auto donors = static_cast<unsigned>(std::ranges::count(donors_, true, &DonorState::linked));
    for (std::uint32_t i = span.first; i < span.first + span.count; ++i) {
        Shard& shard = states_[i];
        if (shard.stage != Shard::Stage::here || shard.label.applied > step) continue;
        shard.donor = other;
        if (++shard.refusals >= donors) lose(shard);
    }
    follow();
    pull();
}

// The next of those who are linked, in turn.
NodeId Joiner::linked_after(NodeId node) const {
    const auto at = std::ranges::find(donors_, node, &DonorState::node);
    const auto first = static_cast<std::size_t>(at - donors_.begin());
    for (std::size_t i = 1; i <= donors_.size(); ++i)
        if (const DonorState& donor = donors_[(first + i) % donors_.size()]; donor.linked && !donor.blamed)
            return donor.node;
    return node;
}

// It is pulled again; then the whole is to be compared again, too.
void Joiner::lose(Shard& shard) {
    shard = {};
    verified_ = false;
    looked_at_.reset();
    own_hashes_.clear();
}

void Joiner::take_part(Fetch fetch) {
    const state::FloatRange range = shards_.in_result(fetch.span);
    if (fetch.content->count != range.count() * sizeof(float)) {
        callbacks_.note(cluster::brief(fetch.donor) + " sent a part of a result of another length");
        for (std::uint32_t i = fetch.span.first; i < fetch.span.first + fetch.span.count; ++i)
            states_[i].asked_to = std::min(states_[i].asked_to, *fetch.step);
        if (DonorState* donor = find(fetch.donor)) donor->blamed = true;
        return follow();
    }
    progress_.result_bytes += fetch.content->count;
    Part part;
    part.span = fetch.span;
    part.step = *fetch.step;
    part.before = fetch.label.lineage;
    // Nothing is learnt any more once the run is over.
    part.after = trainer_.is_over(part.step) ? part.before : state::extend_lineage(part.before, fetch.record);
    part.record = fetch.record;
    part.content = *fetch.content;
    parts_.push_back(std::move(part));
    roll();
    follow();
}

// Applies what fits. While shards are missing, each goes ahead as far as it can; once all are here, they go step by
// step together.
void Joiner::roll() {
    if (!running_) return;
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    bool all = true;
    for (const Shard& state : states_) {
        all = all && state.stage == Shard::Stage::here;
        if (state.stage == Shard::Stage::here) least = std::min(least, state.label.applied);
    }
    std::optional<NodeId> undone;
    for (auto part = parts_.begin(); part != parts_.end();) {
        bool needed = false;
        for (std::uint32_t i = part->span.first; i < part->span.first + part->span.count;) {
            Shard& state = states_[i];
            const bool here = state.stage == Shard::Stage::here;
            if (here && state.job == 0 && state.label.applied == part->step && state.label.lineage != part->before) {
                undone = state.origin;
                lose(state);
                ++i;
                continue;
            }
            const bool next =
                here && state.job == 0 && state.label.applied == part->step && (!all || part->step == least);
            if (!next) {
                needed = needed || (here && state.label.applied <= part->step);
                ++i;
                continue;
            }
            const std::uint64_t id = ++jobs_;
            std::uint32_t end = i;
            while (end < part->span.first + part->span.count && states_[end].stage == Shard::Stage::here &&
                   states_[end].job == 0 && states_[end].label.applied == part->step &&
                   states_[end].label.lineage == part->before) {
                states_[end].job = id;
                ++end;
            }
            apply(*part, {.first = i, .count = end - i}, id);
            i = end;
        }
        part = needed ? std::next(part) : parts_.erase(part);
    }
    if (!undone) return;
    callbacks_.note((*undone == NodeId{} ? "its own shards" : "shards of " + cluster::brief(*undone)) +
                    " are of a step that was undone: they are pulled again");
    pull();
}

void Joiner::apply(const Part& part, ShardSpan span, std::uint64_t id) {
    const auto job = std::make_shared<Part>(part);
    thread_.change(
        [this, job, span] {
            if (trainer_.is_over(job->step)) return;
            const state::FloatRange all = shards_.in_result(job->span);
            const state::FloatRange range = shards_.in_result(span);
            const std::span<const float> floats(reinterpret_cast<const float*>(job->content.bytes.get()),
                                                job->content.count / sizeof(float));
            shards_.apply(trainer_.run().optimizer, trainer_.engine().manifest(), job->record.scalars, span,
                          floats.subspan(range.begin - all.begin, range.count()), trainer_.engine().arena());
        },
        [this, job, span, id, sync = sync_, alive = alive_] {
            if (!*alive || sync != sync_) return;
            for (std::uint32_t i = span.first; i < span.first + span.count; ++i) {
                if (states_[i].job != id) continue;
                states_[i].job = 0;
                states_[i].refusals = 0;
                states_[i].label = {.applied = job->step + 1, .lineage = job->after};
            }
            look_record_ = job->record;
            look();
            if (sync != sync_) return;
            roll();
            follow();
        });
}

// ---- the whole

// Looks whether all of it is one state.
void Joiner::look() {
    if (!running_) return;
    const std::optional<StateLabel> state = whole();
    if (!state || (looked_at_ && *looked_at_ == *state)) return;
    looked_at_ = state;
    if (verified_) return callbacks_.rolled(*state, look_record_);
    own_hashes_.clear();
    if (!thread_.may_read()) {  // it comes by here again
        looked_at_.reset();
        return;
    }
    ask_roots(false);
    const auto hashes = std::make_shared<std::vector<std::uint64_t>>();
    thread_.read([this, hashes] { *hashes = shards_.hashes(trainer_.engine().arena()); },
                 [this, hashes, state, sync = sync_, alive = alive_] {
                     if (!*alive || sync != sync_ || !looked_at_ || looked_at_->lineage != state->lineage) return;
                     own_hashes_ = std::move(*hashes);
                     compare();
                 });
}

// All at once: what they tell must be of the same steps.
void Joiner::ask_roots(bool now) {
    if (verified_) return;
    // Who had not heard yet that this node joins did not answer.
    const bool waited_for = looked_at_ && std::ranges::any_of(donors_, [&](const DonorState& donor) {
                                return donor.linked && std::ranges::none_of(roots_, [&](const Root& root) {
                                           return root.donor == donor.node && root.label.applied == looked_at_->applied;
                                       });
                            });
    const milliseconds patience = waited_for ? last_root_patience : root_patience;
    if (!now && Clock::now() - roots_asked_ < patience) return;
    roots_asked_ = Clock::now();
    for (const DonorState& donor : donors_) {
        if (!donor.linked) continue;
        wire::Work message;
        message.mutable_root_ask();
        (void)member_->links().send_work(donor.node, bytes_of(message));  // no link: link_down follows
    }
}

void Joiner::received(NodeId from, const wire::RootAnswer& answer) {
    const std::optional<cluster::Name> lineage = name_from(answer.lineage());
    if (!running_ || verified_ || find(from) == nullptr || !lineage ||
        static_cast<std::uint32_t>(answer.hashes_size()) != shards_.count())
        return;
    constexpr std::size_t kept_of_each = 8;
    const auto same = [&](const Root& root) { return root.donor == from; };
    if (static_cast<std::size_t>(std::ranges::count_if(roots_, same)) >= kept_of_each)
        roots_.erase(std::ranges::find_if(roots_, same));
    roots_.push_back({.donor = from,
                      .label = {.applied = answer.applied(), .lineage = *lineage},
                      .hashes = {answer.hashes().begin(), answer.hashes().end()}});
    compare();
}

void Joiner::compare() {
    if (!running_ || verified_ || !looked_at_ || own_hashes_.empty()) return;
    const auto donors = static_cast<std::size_t>(std::ranges::count(donors_, true, &DonorState::linked));
    for (const Root& root : roots_) {
        if (root.label.applied != looked_at_->applied) continue;
        const auto agreeing = static_cast<std::size_t>(std::ranges::count_if(roots_, [&](const Root& other) {
            return other.label.applied == root.label.applied && other.label.lineage == root.label.lineage &&
                   other.hashes == root.hashes;
        }));
        if (2 * agreeing <= donors) continue;
        if (root.label.lineage != looked_at_->lineage || root.hashes != own_hashes_) return blame(root);
        for (const Root& other : roots_)
            if (other.label.applied == root.label.applied && other.hashes != root.hashes)
                callbacks_.note(cluster::brief(other.donor) + " names another root of the state than the others");
        verified_ = true;
        const StateLabel state = *looked_at_;
        const cluster::Name name = state::root_of(own_hashes_);
        return callbacks_.synced(state, name);
    }
}

// Most donors have another state than we: what differs is pulled again, of somebody else.
void Joiner::blame(const Root& agreed) {
    const std::vector<std::uint64_t> right = agreed.hashes;
    const std::vector<std::uint64_t> own = own_hashes_;
    const bool foreign = agreed.label.lineage != looked_at_->lineage;
    unsigned own_wrong = 0;
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
        if (!foreign && right[i] == own[i]) continue;
        if (states_[i].origin == NodeId{}) ++own_wrong;
        DonorState* donor = find(states_[i].origin);
        if (donor != nullptr && !donor->blamed && !foreign) {
            donor->blamed = true;
            callbacks_.note(cluster::brief(donor->node) + " sent a wrong shard " + std::to_string(i));
        }
        lose(states_[i]);
    }
    if (own_wrong > 0)
        callbacks_.note(std::to_string(own_wrong) + " of the " + std::to_string(states_.size()) +
                        " shards that were here before are not what the others have");
    divide();
    pull();
}

// ---- a pause

void Joiner::watch_pace() {
    const auto now = Clock::now();
    const std::uint64_t bytes = progress_.shard_bytes + progress_.result_bytes;
    if (pace_.looked != Clock::time_point{}) {
        const double rate = static_cast<double>(bytes - pace_.bytes) / seconds_between(pace_.looked, now);
        pace_.bytes_per_s += (pace_.bytes_per_s > 0.0 ? rate_gain : 1.0) * (rate - pace_.bytes_per_s);
    }
    pace_.looked = now;
    pace_.bytes = bytes;
}

void Joiner::ask_for_pause_if_cheaper() {
    const auto now = Clock::now();
    if (pause_ && now > pause_->until) pause_.reset();
    const ViewPtr view = member_->core().view();
    const std::uint64_t steps = pace_.newest - pace_.applied;
    const double watched = seconds_between(pace_.first, now);
    if (pause_ || verified_ || view == nullptr || steps < least_steps_of_pace || watched < least_seconds_of_pace ||
        pace_.bytes_per_s <= 0.0)
        return;
    const auto result_bytes =
        static_cast<double>(shards_.in_result({.first = 0, .count = shards_.count()}).count() * sizeof(float));
    const double here = static_cast<double>(progress().shards) / static_cast<double>(states_.size());
    const auto members = static_cast<double>(view->active_count());
    const double load = here * result_bytes / (watched / static_cast<double>(steps) * pace_.bytes_per_s);
    if (load <= members / (members + 1.0)) return;
    const DonorState* fastest = nullptr;
    for (const DonorState& donor : donors_)
        if (donor.linked && !donor.blamed && (fastest == nullptr || donor.bytes_per_s > fastest->bytes_per_s))
            fastest = &donor;
    if (fastest == nullptr) return;
    const double seconds = pause_margin * static_cast<double>(bytes_left()) / pace_.bytes_per_s + ahead_seconds;
    pause_ = Pause{.donor = fastest->node,
                   .until = now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))};
    callbacks_.note("its links carry " + std::to_string(std::llround(pace_.bytes_per_s / 1e3)) +
                    " kB/s, of which training takes " + std::to_string(std::llround(100.0 * load)) + " %: asks " +
                    cluster::brief(fastest->node) + " to let everybody wait for the rest, about " +
                    std::to_string(std::llround(seconds)) + " s");
    wire::Work message;
    message.mutable_pause_ask()->set_milliseconds(static_cast<std::uint32_t>(std::min(seconds * 1000.0, 1e9)));
    (void)member_->links().send_work(fastest->node, bytes_of(message));  // no link: link_down follows
    pull();
}

// Until the whole is of the step that training waits with. A shard that is so far behind that the results it lacks are
// more than itself is pulled again.
std::uint64_t Joiner::bytes_left() {
    std::uint64_t left = 0;
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
        Shard& shard = states_[i];
        const ShardSpan span{.first = i, .count = 1};
        const std::uint64_t whole = shards_.floats(span) * sizeof(float);
        const std::uint64_t behind = pace_.newest - std::min(pace_.newest, shard.label.applied);
        const std::uint64_t results = behind * shards_.in_result(span).count() * sizeof(float);
        if (shard.stage == Shard::Stage::here && results > whole) lose(shard);
        left += shard.stage == Shard::Stage::here ? results : whole;
    }
    return left;
}

void Joiner::end_pause() {
    if (!pause_) return;
    wire::Work message;
    message.mutable_pause_ask();
    (void)member_->links().send_work(pause_->donor, bytes_of(message));  // no link: no pause either
    pause_.reset();
}

// What nobody tells.
void Joiner::look_again(std::chrono::milliseconds after) {
    timer_.expires_after(after);
    timer_.async_wait([this, sync = sync_, alive = alive_](boost::system::error_code cancelled) {
        if (cancelled || !*alive || sync != sync_ || !running_) return;
        const auto now = Clock::now();
        for (DonorState& donor : donors_) {
            if (!donor.linked && member_->links().linked(donor.node)) link_up(donor.node);
            // A slow one is given the longer, the slower it is known to be.
            const auto patience = std::max<Clock::duration>(
                shard_patience, std::chrono::duration_cast<Clock::duration>(
                                    std::chrono::duration<double>(4.0 * ask_seconds_of(donor))));
            if (!donor.linked || donor.asked_bytes == 0 || now - donor.last_arrival < patience) continue;
            // It may be busy with others, or stuck: what it was asked for is for everybody again.
            std::vector<std::uint64_t> late;
            for (const auto& [transfer, fetch] : fetches_)
                if (fetch.donor == donor.node && !fetch.step && now - fetch.asked_at >= patience)
                    late.push_back(transfer);
            for (const std::uint64_t transfer : late) give_up(transfer);
            if (!late.empty()) donor.bytes_per_s = std::max(donor.bytes_per_s / 2.0, 1e4);
            donor.last_arrival = now;
        }
        // All blamed: the accusations cannot all be true.
        if (std::ranges::all_of(donors_, &DonorState::blamed))
            for (DonorState& donor : donors_) donor.blamed = false;
        watch_pace();
        ask_for_pause_if_cheaper();
        ask_roots(false);
        look();
        roll();
        follow();
        pull();
        look_again(look_interval);
    });
}

}  // namespace chaos::elastic
