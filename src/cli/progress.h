// How far something is that takes its time: on a terminal in place; elsewhere, where lines stay, one now and then.
#pragma once

#include "infer/packing.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace chaos::cli {

// On standard error.
[[nodiscard]] infer::Progress show_progress(const std::string& what);

// The lines for where they stay, of something that begins at `begun`: none of what is done soon; else one as soon as it
// has taken longer than that, one after each interval, and one at the end.
class ProgressLines {
public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::seconds soon{2};
    static constexpr std::chrono::seconds interval{10};

    ProgressLines(std::string what, Clock::time_point begun) : what_(std::move(what)), begun_(begun) {}

    [[nodiscard]] std::optional<std::string> line(std::uint64_t done, std::uint64_t total, Clock::time_point now);

private:
    std::string what_;
    Clock::time_point begun_;
    std::optional<Clock::time_point> said_;
};

}  // namespace chaos::cli
