#include "net/pacing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace chaos::net {
namespace {

using std::chrono::duration;
using std::chrono::nanoseconds;

constexpr std::chrono::milliseconds averaged{100};  // less is a matter of single packets where links are slow
constexpr std::chrono::seconds remembered{1};
constexpr std::chrono::milliseconds least_target{3};
constexpr int targets_in_path = 8;
constexpr std::chrono::milliseconds least_horizon{100};
constexpr int round_trips_in_horizon = 4;  // what is done shows a round trip later; faster corrections would swing
// Congestion control that has just begun to send makes short queues to find out how far it can go: to limit it then
// would mislead it.
constexpr std::chrono::milliseconds least_until_limit{40};
constexpr int round_trips_until_limit = 1;
constexpr int horizons_until_no_limit = 5;
constexpr double least_share = 0.9;  // of what was delivered lately
constexpr double most_growth = 1.25;
constexpr double futile_share = 0.95;  // a queue that stays when only so much is sent is not ours
constexpr double exact = 0.03;         // what is delivered is what was sent, up to this

double seconds(nanoseconds time) {
    return duration<double>(time).count();
}

}  // namespace

std::uint64_t Pacer::capacity() const {
    double most = 0.0;
    for (const Moment& moment : recent_) most = std::max(most, moment.rate);
    return static_cast<std::uint64_t>(most);
}

void Pacer::remember(const Sample& sample) {
    recent_.push_back({.elapsed = sample.elapsed, .bytes = sample.delivered_bytes, .round_trip = sample.round_trip});
    nanoseconds elapsed{0};
    std::uint64_t bytes = 0;
    for (auto moment = recent_.rbegin(); moment != recent_.rend() && elapsed < averaged; ++moment) {
        elapsed += moment->elapsed;
        bytes += moment->bytes;
    }
    if (elapsed >= averaged) recent_.back().rate = static_cast<double>(bytes) / seconds(elapsed);
    nanoseconds all{0};
    for (const Moment& moment : recent_) all += moment.elapsed;
    while (all - recent_.front().elapsed > remembered) {
        all -= recent_.front().elapsed;
        recent_.pop_front();
    }
}

// While there is too much of a queue: does it shrink? When it is ours, more is delivered than we send, or the link has
// become slower and less is. When neither is so, and we send ever less, the path itself takes longer than we thought:
// the shortest round trip of late.
void Pacer::doubt_path(double carried) {
    const bool ours = rate_ == no_limit || std::abs(recent_.back().rate / static_cast<double>(rate_) - 1.0) > exact;
    if (ours || doubted_from_ == 0.0) doubted_from_ = carried;
    if (carried > futile_share * doubted_from_) return;
    path_ = std::ranges::min(recent_, {}, &Moment::round_trip).round_trip;
    doubted_from_ = 0.0;
}

void Pacer::know_path(nanoseconds round_trip) {
    if (path_.count() == 0) path_ = round_trip;
}

std::uint64_t Pacer::step(const Sample& sample) {
    if (sample.elapsed.count() <= 0 || sample.round_trip.count() <= 0) return rate_;
    if (path_.count() == 0 || sample.round_trip < path_) path_ = sample.round_trip;
    remember(sample);
    const double carried = static_cast<double>(capacity());
    const nanoseconds target = std::max<nanoseconds>(least_target, path_ / targets_in_path);
    const nanoseconds horizon = std::max<nanoseconds>(least_horizon, round_trips_in_horizon * path_);
    const nanoseconds queue = sample.round_trip - path_;
    queued_ = queue > target ? queued_ + sample.elapsed : nanoseconds{0};
    empty_ = queue < target / 2 ? empty_ + sample.elapsed : nanoseconds{0};
    if (empty_ > horizons_until_no_limit * horizon) rate_ = no_limit;
    const nanoseconds until_limit = std::max<nanoseconds>(least_until_limit, round_trips_until_limit * path_);
    if (carried == 0.0 || (rate_ == no_limit && queued_ < until_limit)) return rate_;

    double factor = 1.0 + seconds(target - queue) / seconds(horizon);
    // The longer there is no queue, the farther away its limit may be.
    if (factor > 1.0) factor = 1.0 + (factor - 1.0) * std::max(1.0, 5.0 * seconds(empty_) / seconds(horizon));
    if (queue > target) {
        doubt_path(carried);
    } else {
        doubted_from_ = 0.0;
    }
    rate_ = static_cast<std::uint64_t>(carried * std::clamp(factor, least_share, most_growth));
    return rate_;
}

std::vector<std::uint64_t> share_out(std::uint64_t budget, std::span<const std::uint64_t> wishes) {
    std::vector<std::size_t> order(wishes.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return wishes[i]; });
    std::vector<std::uint64_t> shares(wishes.size());
    std::size_t left = wishes.size();
    for (const std::size_t i : order) {
        shares[i] = std::min(wishes[i], budget / left);
        budget -= shares[i];
        --left;
    }
    return shares;
}

}  // namespace chaos::net
