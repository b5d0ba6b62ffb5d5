#include "tensor/beginning.h"

#include <algorithm>

namespace chaos::tensor {
namespace {

constexpr std::chrono::milliseconds pause{250};
constexpr std::chrono::milliseconds dial_pause{1000};
constexpr std::size_t max_address_bytes = 256;

}  // namespace

Beginning::Beginning(boost::asio::io_context& loop, NodeId self, std::string address, std::vector<std::string> others,
                     Callbacks callbacks, std::chrono::milliseconds patience)
    : self_(self),
      address_(std::move(address)),
      others_(std::move(others)),
      callbacks_(std::move(callbacks)),
      patience_(patience),
      timer_(loop) {
    std::erase(others_, address_);
    look();
}

// A timer that cannot be cancelled would be a broken invariant.
Beginning::~Beginning() {  // NOLINT(bugprone-exception-escape)
    timer_.cancel();
}

void Beginning::link_down(NodeId peer) {
    peers_.erase(peer);
}

void Beginning::received(NodeId from, const wire::Beginning& message) {
    if (over_ || message.address().size() > max_address_bytes) return;
    Peer& peer = peers_[from];
    if (!std::exchange(peer.heard, true)) peer.since = Clock::now();
    if (message.joins() && !peer.said.joins()) peer.joins_since = Clock::now();
    peer.said = message;
    if (!message.is_in()) return;
    over_ = true;
    timer_.cancel();
    callbacks_.join(from, message.address());
}

// One that is there and does not say what it is about to do is waited for as long as for all.
bool Beginning::may_found() const {
    const auto now = Clock::now();
    return now - begun_ >= patience_ && std::ranges::all_of(peers_, [&](const auto& each) {
               const auto& [node, peer] = each;
               if (!peer.heard) return now - peer.since >= patience_;
               const bool joins = peer.said.joins() && now - peer.joins_since < joining_patience * patience_;
               return !joins && (!peer.said.founds() || self_ < node);
           });
}

void Beginning::look() {
    for (const NodeId peer : callbacks_.linked()) {
        peers_.try_emplace(peer, Peer{.since = Clock::now(), .heard = false, .said = {}, .joins_since = {}});
        wire::Beginning message;
        message.set_asks(true);
        message.set_founds(true);
        message.set_address(address_);
        callbacks_.send(peer, message);
    }
    if (may_found()) {
        over_ = true;
        return callbacks_.found();
    }
    // Two that dial each other at once lose one of two connections, with what was said on it: not all the time.
    if (Clock::now() < dial_at_) return wait();
    dial_at_ = Clock::now() + dial_pause;
    for (const std::string& address : others_) {
        const bool there = std::ranges::any_of(
            peers_, [&](const auto& each) { return each.second.heard && each.second.said.address() == address; });
        if (!there) callbacks_.dial(address);
    }
    wait();
}

void Beginning::wait() {
    timer_.expires_after(pause);
    timer_.async_wait([this, alive = std::weak_ptr(alive_)](boost::system::error_code cancelled) {
        if (!cancelled && !alive.expired() && !over_) look();
    });
}

}  // namespace chaos::tensor
