#include "tensor/echoes.h"

#include "base/assert.h"

#include <algorithm>
#include <vector>

namespace chaos::tensor {
namespace {

// Of each kind.
constexpr std::size_t first_echoes = 8;
constexpr std::size_t kept = 32;

// The lower quartile: those that came while somebody computed hardly move it.
std::chrono::nanoseconds usual(const std::deque<std::chrono::nanoseconds>& times) {
    std::vector<std::chrono::nanoseconds> sorted(times.begin(), times.end());
    const auto place = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 4);
    std::nth_element(sorted.begin(), place, sorted.end());
    return *place;
}

}  // namespace

Echoes::Echoes(boost::asio::io_context& loop, std::size_t sums_bytes, Callbacks callbacks,
               std::chrono::milliseconds pause)
    : bytes_{0, sums_bytes, max_echo_bytes}, callbacks_(std::move(callbacks)), pause_(pause), timer_(loop) {
    CHAOS_ASSERT(sums_bytes <= max_echo_bytes);
    tick();
}

// A timer that cannot be cancelled would be a broken invariant.
Echoes::~Echoes() {  // NOLINT(bugprone-exception-escape)
    timer_.cancel();
}

void Echoes::tick() {
    timer_.expires_after(pause_);
    timer_.async_wait([this, alive = std::weak_ptr(alive_)](boost::system::error_code cancelled) {
        if (cancelled || alive.expired()) return;
        for (auto& [to, peer] : peers_) {
            if (peer.left == 0) {
                peer.left = kinds;
                next(to, peer);
            } else if (Clock::now() - peer.sent >= pause_) {
                send(to, peer);
            }
        }
        tick();
    });
}

void Echoes::link_up(NodeId peer) {
    Peer& fresh = peers_[peer] = {};
    fresh.left = kinds * first_echoes;
    next(peer, fresh);
}

void Echoes::link_down(NodeId peer) {
    peers_.erase(peer);
}

void Echoes::next(NodeId to, Peer& peer) {
    peer.kind = (peer.kind + 1) % kinds;
    send(to, peer);
}

void Echoes::send(NodeId to, Peer& peer) {
    peer.number = ++last_number_;
    wire::Echo echo;
    echo.set_number(peer.number);
    echo.set_filling(std::string(bytes_[peer.kind], '\0'));
    peer.sent = Clock::now();
    callbacks_.send(to, echo);
}

void Echoes::received(NodeId from, const wire::Echo& echo) {
    if (!echo.back()) {
        if (echo.filling().size() > max_echo_bytes) return;  // nobody's measure
        wire::Echo answer = echo;
        answer.set_back(true);
        return callbacks_.send(from, answer);
    }
    const auto found = peers_.find(from);
    if (found == peers_.end() || found->second.number != echo.number() || found->second.left == 0) return;
    Peer& peer = found->second;
    auto& times = peer.times[peer.kind];
    times.push_back((Clock::now() - peer.sent) / 2);
    if (times.size() > kept) times.pop_front();
    if (--peer.left > 0) return next(from, peer);
    if (peer.times[much].size() == first_echoes) callbacks_.measured(from);
}

std::optional<Echoes::Times> Echoes::times(NodeId peer) const {
    const auto found = peers_.find(peer);
    if (found == peers_.end() || found->second.times[much].size() < first_echoes) return std::nullopt;
    const auto& of = found->second.times;
    return Times{.little = usual(of[little]), .sums = usual(of[sums]), .much = usual(of[much])};
}

}  // namespace chaos::tensor
