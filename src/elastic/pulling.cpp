// A joiner and its donors' shards.
#include "elastic/joiner.h"

#include <algorithm>

namespace chaos::elastic {
namespace {

using state::ShardSpan;
using std::chrono::milliseconds;

constexpr double ask_seconds = 0.05;   // worth of one ask
constexpr double ahead_seconds = 0.2;  // worth of all asks to one donor, and twice the round trip
constexpr double first_guess_bytes_per_s = 4e6;
constexpr std::uint64_t most_ahead_bytes = 48 << 20;
constexpr double rate_seconds = 0.1;      // of arrivals that make a rate: what comes first may be a burst
constexpr double most_duplicated = 0.03;  // of the state
constexpr milliseconds refusal_pause{50};

}  // namespace

// Keeps every donor busy.
void Joiner::pull() {
    if (!running_ || out_until_) return;
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

// The transfer by which it is to come.
std::uint64_t Joiner::expect(std::uint64_t bytes, Fetch fetch) {
    auto number = std::make_shared<std::uint64_t>(0);
    *number = steps_.transfers().expect(fetch.donor, bytes, [this, number](const net::Transfers::Arrived& arrived) {
        fetches_.at(*number).content = arrived;
        complete(*number);
    });
    fetch.asked_at = fetch.moved_at = Clock::now();
    fetches_.emplace(*number, std::move(fetch));
    return *number;
}

void Joiner::ask_shards(DonorState& donor, ShardSpan span) {
    const std::uint64_t bytes = shards_.floats(span) * sizeof(float);
    Fetch fetch;
    fetch.donor = donor.node;
    fetch.span = span;
    const std::uint64_t transfer = expect(bytes, std::move(fetch));
    if (donor.asked_bytes == 0) {
        donor.last_arrival = donor.window_begun = Clock::now();
        donor.window_bytes = 0;
    }
    donor.asked_bytes += bytes;
    for (std::uint32_t i = span.first; i < span.first + span.count; ++i)
        if (states_[i].stage == Shard::Stage::missing) states_[i].stage = Shard::Stage::asked;
    wire::Work message;
    wire::ShardAsk& ask = *message.mutable_shard_ask();
    ask.set_transfer(transfer);
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
    const auto most = static_cast<std::uint64_t>(trainer_.run().train.steps) + 1;  // as start_step() in participant.cpp
    if (answer.applied() > most) {
        if (DonorState* donor = find(from)) blame(*donor, "has shards of a step that the run does not have");
        return pull();
    }
    at->second.answered = true;
    at->second.label = {.applied = answer.applied(), .lineage = *lineage};
    claims_.reached(from, answer.applied(), Clock::now());
    note_reached();
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
                          .other = {},
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
        for (std::uint32_t i = fetch.span.first; i < fetch.span.first + fetch.span.count; ++i)
            if (states_[i].stage == Shard::Stage::asked) states_[i].stage = Shard::Stage::missing;
        if (DonorState* donor = find(fetch.donor)) blame(*donor, "sent shards of another length");
    }
    follow();
    pull();
}

}  // namespace chaos::elastic
