// When it costs less to let everybody wait for a joiner.
#include "elastic/joiner.h"

#include <algorithm>
#include <cmath>

namespace chaos::elastic {
namespace {

using state::ShardSpan;
using std::chrono::milliseconds;

constexpr double pause_slack_seconds = 0.2;
constexpr std::uint64_t least_steps_of_pace = 3;
constexpr double least_seconds_of_pace = 1.0;
constexpr double pause_margin = 2.0;                            // on what it should take
constexpr std::chrono::milliseconds most_pause{1'000'000'000};  // that is ever asked for
constexpr std::chrono::minutes first_time_out{1};               // twice as long each time
constexpr std::chrono::minutes longest_time_out{16};

}  // namespace

// What comes first may be a burst; and it may come in large pieces, so that a short look would see all or nothing.
void Joiner::watch_pace() {
    const auto now = Clock::now();
    const std::uint64_t bytes = progress().received_bytes;
    note_reached();
    const bool first = pace_.looked == Clock::time_point{};
    const double watched = first ? 0.0 : seconds_between(pace_.looked, now);
    if (!first && (watched < least_seconds_of_pace || bytes == pace_.bytes)) return;
    if (pace_.is_steady) pace_.bytes_per_s = static_cast<double>(bytes - pace_.bytes) / watched;
    pace_.is_steady = !first;
    pace_.looked = now;
    pace_.bytes = bytes;
}

void Joiner::note_reached() {
    pace_.newest = claims_.reached_by_most(linked());
    if (pace_.newest == 0 || pace_.first != Clock::time_point{}) return;
    pace_.first = Clock::now();
    pace_.applied = pace_.newest;
}

// Who has been let in is waited for, and goes on whatever its links carry.
bool Joiner::may_stay_out() const {
    const ViewPtr view = member_->core().view();
    const cluster::MemberInfo* self = view == nullptr ? nullptr : view->find(member_->id());
    return !verified_ && self != nullptr && self->standing == cluster::Standing::syncing;
}

void Joiner::ask_for_pause_if_cheaper() {
    const auto now = Clock::now();
    if (pause_ && now > pause_->until) pause_.reset();
    const ViewPtr view = member_->core().view();
    const std::uint64_t steps = pace_.newest - std::min(pace_.newest, pace_.applied);
    const double watched = seconds_between(pace_.first, now);
    if (pause_ || !may_stay_out() || steps < least_steps_of_pace || watched < least_seconds_of_pace ||
        pace_.bytes_per_s <= 0.0)
        return;
    const auto result_bytes =
        static_cast<double>(shards_.in_result({.first = 0, .count = shards_.count()}).count() * sizeof(float));
    const double here = static_cast<double>(progress().shards) / static_cast<double>(states_.size());
    const auto members = static_cast<double>(view->active_count());
    const double load = here * result_bytes / (watched / static_cast<double>(steps) * pace_.bytes_per_s);
    if (load <= members / (members + 1.0)) return;
    const double takes_ms = 1000.0 * (static_cast<double>(bytes_left()) / pace_.bytes_per_s + pause_slack_seconds);
    const milliseconds needed(std::llround(std::min(takes_ms, static_cast<double>(most_pause.count()))));
    callbacks_.note("its links carry " + std::to_string(std::llround(pace_.bytes_per_s / 1e3)) +
                    " kB/s, of which training takes " + std::to_string(std::llround(100.0 * load)) +
                    " %: asks to let everybody wait for the rest, about " +
                    std::to_string(std::llround(takes_ms / 1e3)) + " s");
    ask_fastest_for_pause({.load = load, .needed = needed});
}

void Joiner::ask_fastest_for_pause(const PauseWish& wish) {
    DonorState* fastest = nullptr;
    bool refused = false;
    for (DonorState& donor : donors_) {
        if (!donor.linked || donor.blamed) continue;
        refused = refused || donor.most_pause;
        if (!donor.most_pause && (fastest == nullptr || donor.bytes_per_s > fastest->bytes_per_s)) fastest = &donor;
    }
    if (fastest != nullptr) {
        const auto asked = std::chrono::duration_cast<milliseconds>(pause_margin * wish.needed);
        ask_for_pause(*fastest, wish, std::min(asked, most_pause));
    } else if (refused) {
        stay_out(wish);
    }
}

void Joiner::ask_for_pause(DonorState& donor, const PauseWish& wish, milliseconds asked) {
    pause_ = Pause{.donor = donor.node, .until = Clock::now() + asked, .wish = wish};
    wire::Work message;
    message.mutable_pause_ask()->set_milliseconds(static_cast<std::uint32_t>(asked.count()));
    (void)member_->links().send_work(donor.node, bytes_of(message));  // no link: link_down follows
    pull();
}

// A shorter pause may do, if only just; else another donor may grant more.
void Joiner::received(NodeId from, const wire::PauseAnswer& answer) {
    DonorState* donor = find(from);
    if (donor == nullptr || !pause_ || pause_->donor != from) return;
    if (answer.granted()) return donor->most_pause.reset();
    const PauseWish wish = pause_->wish;
    const milliseconds most(std::min<std::int64_t>(answer.most_milliseconds(), most_pause.count()));
    const bool asked_once = !donor->most_pause;
    pause_.reset();
    if (!may_stay_out()) return;
    donor->most_pause = most;
    if (asked_once && most >= wish.needed) return ask_for_pause(*donor, wish, most);
    ask_fastest_for_pause(wish);
}

// It would never be there: what it is sent is old before the rest has come.
void Joiner::stay_out(const PauseWish& wish) {
    milliseconds most{0};
    for (const DonorState& donor : donors_)
        if (donor.linked && !donor.blamed) most = std::max(most, donor.most_pause.value_or(milliseconds{0}));
    const auto time_out =
        std::min<std::chrono::minutes>(first_time_out * (1U << std::min(times_out_, 8U)), longest_time_out);
    ++times_out_;
    const auto seconds = [](milliseconds time) { return std::to_string((time.count() + 999) / 1000) + " s"; };
    callbacks_.note("tries again in " + std::to_string(time_out.count()) + " min, or as soon as it has another link");
    out_until_ = Clock::now() + time_out;
    while (!fetches_.empty()) give_up(fetches_.begin()->first);
    parts_.clear();
    roots_.clear();
    looked_at_.reset();
    for (Shard& shard : states_) shard.asked_to = shard.label.applied;
    callbacks_.kept_out("stays out: its links carry less than what is learnt (" +
                        std::to_string(std::llround(pace_.bytes_per_s / 1e3)) + " kB/s, of which training takes " +
                        std::to_string(std::llround(100.0 * wish.load)) + " %), and " +
                        (most.count() > 0 ? "a pause of " + seconds(wish.needed) + " is more than the " +
                                                seconds(most) + " that members allow"
                                          : "members allow it no more pauses for now"));
}

void Joiner::try_again() {
    out_until_.reset();
    pace_ = {};
    for (DonorState& donor : donors_) {
        donor.most_pause.reset();
        donor.last_arrival = Clock::now();
    }
    ask_roots(true);
    follow();
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

}  // namespace chaos::elastic
