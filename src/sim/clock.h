// A node's own clock: it began somewhere and runs a little fast or slow. Clocks of two nodes agree on nothing.
#pragma once

#include "sim/queue.h"

namespace chaos::sim {

class Clock {
public:
    Clock() = default;
    Clock(Time began_at, Time shows, std::int64_t drift_ppm)
        : began_at_(began_at), shows_(shows), drift_ppm_(drift_ppm) {}

    [[nodiscard]] Time read(Time now) const {
        const Time passed = now - began_at_;
        return shows_ + passed + passed / 1'000'000 * drift_ppm_ + passed % 1'000'000 * drift_ppm_ / 1'000'000;
    }

    // When the clock shows at least `reading`.
    [[nodiscard]] Time when(Time reading) const {
        const Time wanted = reading - shows_;
        Time at = began_at_ + wanted - wanted / (1'000'000 + drift_ppm_) * drift_ppm_;
        while (read(at) < reading) at += (reading - read(at)) / 2 + 1;
        return at;
    }

    // From now on it runs at another speed.
    void change_drift(Time now, std::int64_t drift_ppm) { *this = Clock(now, read(now), drift_ppm); }

private:
    Time began_at_ = 0;
    Time shows_ = 0;
    std::int64_t drift_ppm_ = 0;
};

}  // namespace chaos::sim
