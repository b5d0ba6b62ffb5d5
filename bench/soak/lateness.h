// How long this machine kept a process from its cores that had something to do: it shares them with others.
#pragma once

#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace chaos::bench {

// Sleeps for moments, from its beginning to its end, and sees how much too late it wakes.
class Lateness {
public:
    Lateness();

    // In all since that time, in seconds; what is usual on a machine at rest does not count.
    [[nodiscard]] double since(double time) const;

private:
    void watch(const std::stop_token& end);

    mutable std::mutex mutex_;                     // `seen_` is filled by one thread and read by another
    std::vector<std::pair<double, double>> seen_;  // when, and how late
    std::jthread thread_;
};

}  // namespace chaos::bench
