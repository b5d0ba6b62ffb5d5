// An allowance: so much at once, and so much per second in the long run. What is asked of a node by others is held to
// one, so that no single one of them can take all of its time.
#pragma once

#include <algorithm>
#include <chrono>

namespace chaos::net {

class Allowance {
public:
    using Clock = std::chrono::steady_clock;

    Allowance(double per_second, double at_once, Clock::time_point now)
        : per_second_(per_second), at_once_(at_once), left_(at_once), counted_at_(now) {}

    // Takes it. How long the taker must pause for what it took beyond its allowance; zero: it did not.
    [[nodiscard]] Clock::duration take(double amount, Clock::time_point now) {
        refill(now);
        left_ -= amount;
        if (left_ >= 0) return Clock::duration::zero();
        return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(-left_ / per_second_));
    }
    // Takes it only if it is there.
    [[nodiscard]] bool take_if_left(double amount, Clock::time_point now) {
        refill(now);
        if (left_ < amount) return false;
        left_ -= amount;
        return true;
    }

private:
    void refill(Clock::time_point now) {
        const std::chrono::duration<double> passed = now - counted_at_;
        left_ = std::min(at_once_, left_ + passed.count() * per_second_);
        counted_at_ = now;
    }

    double per_second_;
    double at_once_;
    double left_;
    Clock::time_point counted_at_;
};

}  // namespace chaos::net
