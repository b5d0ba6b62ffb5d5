// When it costs less to let everybody wait for a joiner.
#include "elastic/joiner.h"

#include <algorithm>
#include <cmath>

namespace chaos::elastic {
namespace {

using state::ShardSpan;

constexpr double pause_slack_seconds = 0.2;
constexpr std::uint64_t least_steps_of_pace = 3;
constexpr double least_seconds_of_pace = 1.0;
constexpr double pause_margin = 2.0;  // on what it should take

}  // namespace

void Joiner::watch_pace() {
    const auto now = Clock::now();
    const std::uint64_t bytes = progress_.shard_bytes + progress_.result_bytes;
    if (pace_.looked != Clock::time_point{}) {
        const double rate = static_cast<double>(bytes - pace_.bytes) / seconds_between(pace_.looked, now);
        pace_.bytes_per_s += (pace_.bytes_per_s > 0.0 ? rate_gain : 1.0) * (rate - pace_.bytes_per_s);
    }
    pace_.looked = now;
    pace_.bytes = bytes;
    note_reached();
}

void Joiner::note_reached() {
    pace_.newest = claims_.reached_by_most(linked());
    if (pace_.newest == 0 || pace_.first != Clock::time_point{}) return;
    pace_.first = Clock::now();
    pace_.applied = pace_.newest;
}

void Joiner::ask_for_pause_if_cheaper() {
    const auto now = Clock::now();
    if (pause_ && now > pause_->until) pause_.reset();
    const ViewPtr view = member_->core().view();
    const std::uint64_t steps = pace_.newest - std::min(pace_.newest, pace_.applied);
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
    const double seconds = pause_margin * static_cast<double>(bytes_left()) / pace_.bytes_per_s + pause_slack_seconds;
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

}  // namespace chaos::elastic
