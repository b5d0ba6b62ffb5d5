#include "sim/network.h"

#include "base/random.h"

#include <algorithm>

namespace chaos::sim {
namespace {

constexpr std::uint64_t path_stream = 0x70617468;
constexpr Time retransmit_after = 200 * millisecond;

// Uniform in [low, high].
std::uint64_t between(std::uint64_t bits, std::uint64_t low, std::uint64_t high) {
    return low + bits % (high - low + 1);
}

}  // namespace

Network::Network(std::uint64_t seed, Host hosts, const PathRanges& ranges)
    : seed_(seed), ranges_(ranges), as_built_(ranges), corruption_ppm_(hosts) {}

std::uint32_t Network::path(Host from, Host to) {
    const std::uint64_t key = std::uint64_t{from} << 32 | to;
    const auto [found, added] = path_of_.try_emplace(key, static_cast<std::uint32_t>(paths_.size()));
    if (added) {
        // Both directions of a pair have one delay; their rates may differ.
        const std::uint64_t pair = std::uint64_t{std::min(from, to)} << 32 | std::max(from, to);
        const auto low = static_cast<std::uint64_t>(as_built_.delay_min);
        const auto high = static_cast<std::uint64_t>(as_built_.delay_max);
        Path made;
        made.from = from;
        made.to = to;
        made.delay = static_cast<Time>(between(random_bits(seed_, path_stream, pair), low, high));
        made.rate = between(random_bits(seed_, path_stream + 1, key), as_built_.rate_min, as_built_.rate_max);
        paths_.push_back(made);
    }
    return found->second;
}

bool Network::passes(Host from, Host to) const {
    if (!groups_.empty() && groups_[from] != groups_[to]) return false;
    return cuts_.empty() || std::find(cuts_.begin(), cuts_.end(), std::pair(from, to)) == cuts_.end();
}

Arrivals Network::send(std::uint32_t path, Time now, bool surely) {
    Path& p = paths_[path];
    const std::uint64_t number = p.messages++;
    if (!passes(p.from, p.to)) return {};
    const std::uint64_t key = std::uint64_t{p.from} << 32 | p.to;
    const std::uint64_t bits = random_bits(seed_, key, number);
    const Time jitter =
        ranges_.jitter > 0 ? static_cast<Time>((bits >> 32) % static_cast<std::uint64_t>(ranges_.jitter)) : 0;
    Arrivals arrivals;
    arrivals.first = std::max(now + p.delay + jitter, p.last_arrival + 1);
    if (!surely && ranges_.loss_ppm + ranges_.duplicate_ppm + ranges_.reorder_ppm > 0) {
        std::uint64_t luck = (bits & 0xffffffff) % 1'000'000;
        if (luck < ranges_.loss_ppm) return {};
        luck -= ranges_.loss_ppm;
        const auto later =
            static_cast<Time>(random_bits(bits, 1, number) % static_cast<std::uint64_t>(4 * p.delay + 1));
        if (luck < ranges_.duplicate_ppm) {
            arrivals.second = arrivals.first + later;
        } else if (luck - ranges_.duplicate_ppm < ranges_.reorder_ppm) {
            arrivals.first += later;
            return arrivals;  // those behind it do not wait
        }
    }
    p.last_arrival = arrivals.first;
    return arrivals;
}

Time Network::send_bulk(std::uint32_t path, std::uint64_t bytes, Time now) {
    Path& p = paths_[path];
    const std::uint64_t number = p.messages++;
    p.bulk_free_at = std::max(now, p.bulk_free_at) + static_cast<Time>(bytes * 1'000'000'000 / p.rate);
    Time arrival = p.bulk_free_at + p.delay;
    const std::uint64_t key = std::uint64_t{p.from} << 32 | p.to;
    if (ranges_.loss_ppm > 0 && random_bits(seed_, key, number) % 1'000'000 < ranges_.loss_ppm)
        arrival += retransmit_after;
    return arrival;
}

void Network::cut(Host from, Host to) {
    if (std::find(cuts_.begin(), cuts_.end(), std::pair(from, to)) == cuts_.end()) cuts_.emplace_back(from, to);
}

void Network::mend(Host from, Host to) {
    std::erase(cuts_, std::pair(from, to));
}

void Network::heal_all() {
    cuts_.clear();
    groups_.clear();
    ranges_ = as_built_;
    std::fill(corruption_ppm_.begin(), corruption_ppm_.end(), 0);
}

void Network::worsen(std::uint32_t loss_ppm, std::uint32_t duplicate_ppm, std::uint32_t reorder_ppm) {
    ranges_.loss_ppm = loss_ppm;
    ranges_.duplicate_ppm = duplicate_ppm;
    ranges_.reorder_ppm = reorder_ppm;
}

}  // namespace chaos::sim
