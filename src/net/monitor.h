// What a node measures: how fast data really comes over each link, how long a message takes and how evenly, how much is
// lost; and what the machine has to offer. Figures are hints for plans: a wrong one costs speed, never correctness.
//
// The first two classes are pure: they are told what happened, and when.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace chaos::net {

using Clock = std::chrono::steady_clock;

// The rate at which bulk data comes when it comes without pause. It is measured in windows of some length during which
// nothing paused: between steps a link rests, and that says nothing about it. Traffic may be slower than its link, so a
// faster window counts at once, and a slower one only slowly.
class RateMeter {
public:
    // So many bytes came, the first of them at `begin`, the last at `end`.
    void arrived(std::size_t bytes, Clock::time_point begin, Clock::time_point end);
    // 0: not known.
    [[nodiscard]] std::uint64_t bytes_per_s() const { return bytes_per_s_; }

private:
    void close_window(Clock::time_point now);

    Clock::time_point window_began_;
    Clock::time_point last_;
    std::uint64_t window_bytes_ = 0;
    std::uint64_t bytes_per_s_ = 0;
};

// Round trips: their mean, how far they spread around it, and the least, as TCP does it.
class RoundTrips {
public:
    void add(std::chrono::nanoseconds round_trip);
    [[nodiscard]] std::chrono::nanoseconds mean() const { return mean_; }  // 0: none yet
    [[nodiscard]] std::chrono::nanoseconds spread() const { return spread_; }
    [[nodiscard]] std::chrono::nanoseconds least() const { return least_; }

private:
    std::chrono::nanoseconds mean_{0};
    std::chrono::nanoseconds spread_{0};
    std::chrono::nanoseconds least_{0};
};

// Segments that TCP sent on a connection, and how many of them were sent again. Zeros where the system does not tell.
struct Segments {
    std::uint64_t sent = 0;
    std::uint64_t again = 0;
};
[[nodiscard]] Segments segments_of(int socket);

struct Machine {
    double cores = 0.0;  // that this process may use: CPU affinity and the quota of its control group
    std::uint64_t memory_bytes = 0;
    std::uint64_t free_memory_bytes = 0;  // that programs could have now
    double load = 0.0;                    // of the last minute
    unsigned gpus = 0;                    // NVIDIA's
};
[[nodiscard]] Machine measure_machine();

}  // namespace chaos::net
