// Lines for the log about what others do. A node that is shouted at writes down what it can, and says how much that
// leaves out. What is still as it was is said once a minute.
#pragma once

#include "net/allowance.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace chaos::net {

class LimitedLines {
public:
    static constexpr double per_second = 10;
    static constexpr double at_once = 200;
    static constexpr std::chrono::minutes again_after{1};

    explicit LimitedLines(Allowance::Clock::time_point now) : allowance_(per_second, at_once, now) {}

    // The line to be written; none: it is left out.
    [[nodiscard]] std::optional<std::string> next(std::string text, Allowance::Clock::time_point now) {
        std::erase_if(said_, [&](const auto& line) { return now - line.second >= again_after; });
        if (said_.contains(text)) return std::nullopt;
        if (!allowance_.take_if_left(1, now)) {
            ++left_out_;
            return std::nullopt;
        }
        said_.emplace(text, now);
        if (left_out_ > 0) text += "; " + std::to_string(left_out_) + " lines like it were left out before";
        left_out_ = 0;
        return text;
    }

private:
    Allowance allowance_;
    std::uint64_t left_out_ = 0;
    std::map<std::string, Allowance::Clock::time_point> said_;  // lately; the allowance bounds how many
};

}  // namespace chaos::net
