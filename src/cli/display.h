// How training shows itself: a line that updates in place on a terminal, one plain line per interval elsewhere, or one
// JSON object per event for programs.
#pragma once

#include "compute/engine.h"
#include "elastic/trainer.h"
#include "state/record.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace chaos::cli {

class Display {
public:
    virtual ~Display() = default;
    virtual void start(const elastic::Trainer& trainer, const std::filesystem::path& dir) = 0;
    virtual void note(const std::string& sentence) = 0;
    virtual void step(const state::StepRecord& record) = 0;
    virtual void evaluated(std::uint64_t steps_done, const compute::Measure& measure, bool best) = 0;
    virtual void saved(std::uint64_t steps_done, const std::filesystem::path& path) = 0;
    virtual void sampled(const std::string& text) = 0;
    // `why`: "finished", "interrupted" or "reached --max-steps".
    virtual void end(const elastic::Trainer& trainer, const std::string& why) = 0;
};

// `steps`: the run's last step, for progress and the time left.
[[nodiscard]] std::unique_ptr<Display> make_display(bool json, std::uint64_t steps);

// Samples per second and the time left, from the steps of the last few seconds.
class Pace {
public:
    using Clock = std::chrono::steady_clock;
    void note(std::uint64_t samples);
    [[nodiscard]] double samples_per_second() const { return rate_; }
    [[nodiscard]] double seconds_per_step() const { return step_seconds_; }

private:
    Clock::time_point last_ = Clock::now();
    double rate_ = 0.0;
    double step_seconds_ = 0.0;
};

// "2 h 05 min", "3 min 20 s", "12 s"
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace chaos::cli
