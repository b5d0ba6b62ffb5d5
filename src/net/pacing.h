// How fast a link sends bulk data, so that urgent messages do not wait behind it. Congestion control alone lets each
// connection keep a queue in front of the bottleneck: at 100 Mbit/s two of them hold back everything else for 12 ms. A
// pacer watches the round trip of all bulk connections of a link and holds their sum to what the bottleneck carries,
// with a queue of a few milliseconds (an eighth of a long path) so that it never runs dry:
//
//   rate = capacity * (1 + (target - queue) / horizon)        queue = round trip - the path's own
//
// capacity is the most that was delivered lately. A pacer is a limit and nothing else: it never asks for more than
// congestion control would send, and at most a tenth less than what was delivered. Where the round trip does not follow
// (somebody else's queue, another path, jitter), it learns that the path takes longer, and goes on. Where there is no
// queue (the receiver is slow, or the sender has nothing to send), there is no limit.
//
// Pure: no sockets, no clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace chaos::net {

inline constexpr std::uint64_t no_limit = UINT64_MAX;

class Pacer {
public:
    // What happened since the last one; all the while, there was something to send.
    struct Sample {
        std::chrono::nanoseconds elapsed{0};
        std::uint64_t delivered_bytes = 0;
        std::chrono::nanoseconds round_trip{0};  // smoothed
    };
    // Bytes per second from now on, or no_limit.
    std::uint64_t step(const Sample& sample);

    // The shortest round trip that was seen before there was anything to pace.
    void know_path(std::chrono::nanoseconds round_trip);

    // There was nothing to send for a while: what came after it does not belong to what came before.
    void pause() { recent_.clear(); }

    // The most that was delivered lately, in bytes per second; 0: not known.
    [[nodiscard]] std::uint64_t capacity() const;

private:
    struct Moment {
        std::chrono::nanoseconds elapsed{0};
        std::uint64_t bytes = 0;
        std::chrono::nanoseconds round_trip{0};
        double rate = 0.0;  // over this moment and a few before it
    };

    void remember(const Sample& sample);
    void doubt_path(double carried);

    std::deque<Moment> recent_;
    std::chrono::nanoseconds path_{0};  // round trip without a queue; 0: not known
    std::uint64_t rate_ = no_limit;
    std::chrono::nanoseconds queued_{0};  // how long there has been too much of a queue
    std::chrono::nanoseconds empty_{0};   // ... too little
    double doubted_from_ = 0.0;           // what was carried when the queue began to stay; 0: it does not
};

// Divides what a node may send among those who wish to: nobody gets more than its wish, nobody's share is smaller than
// another's unless it wished for less, and nothing that somebody wishes for is left over.
[[nodiscard]] std::vector<std::uint64_t> share_out(std::uint64_t budget, std::span<const std::uint64_t> wishes);

}  // namespace chaos::net
