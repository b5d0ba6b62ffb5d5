// How long messages take between this node and its neighbours: a short one, one as long as a token's sums, and a long
// one, because many links let short messages pass faster than they let much pass. Each is sent, comes back, and is
// timed; half of that is one way. Some are sent as soon as there is a link, one behind the other, then one of each kind
// now and then. One that does not come back for that long is sent again: links that two nodes dial at once lose what
// was said on the one that they drop. Of the last ones, one of the shorter counts: a neighbour that computes answers
// late, which is not the network's doing.
//
// Everything is called, and calls back, in the loop's thread.
#pragma once

#include "tensor/wire.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace chaos::tensor {

class Echoes {
public:
    struct Callbacks {
        std::function<void(NodeId to, const wire::Echo& echo)> send;  // no link is no error: link_down() follows
        std::function<void(NodeId peer)> measured;                    // for the first time
    };
    static constexpr std::chrono::milliseconds usual_pause{5000};
    // `sums_bytes`: at most max_echo_bytes.
    Echoes(boost::asio::io_context& loop, std::size_t sums_bytes, Callbacks callbacks,
           std::chrono::milliseconds pause = usual_pause);
    ~Echoes();
    Echoes(const Echoes&) = delete;
    Echoes& operator=(const Echoes&) = delete;

    void link_up(NodeId peer);
    void link_down(NodeId peer);
    void received(NodeId from, const wire::Echo& echo);

    // One way.
    struct Times {
        std::chrono::nanoseconds little{0};
        std::chrono::nanoseconds sums{0};
        std::chrono::nanoseconds much{0};
    };
    // None where they are not known yet.
    [[nodiscard]] std::optional<Times> times(NodeId peer) const;

private:
    using Clock = std::chrono::steady_clock;
    enum Kind : std::size_t { little, sums, much, kinds };
    struct Peer {
        std::uint64_t number = 0;  // of the echo that is awaited; 0: none
        Clock::time_point sent;
        std::size_t kind = much;  // of it
        std::size_t left = 0;     // to be sent at once
        std::array<std::deque<std::chrono::nanoseconds>, kinds> times;
    };
    void next(NodeId to, Peer& peer);
    void send(NodeId to, Peer& peer);
    void tick();

    std::array<std::size_t, kinds> bytes_;
    Callbacks callbacks_;
    std::chrono::milliseconds pause_;
    boost::asio::steady_timer timer_;
    std::uint64_t last_number_ = 0;
    std::map<NodeId, Peer> peers_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace chaos::tensor
