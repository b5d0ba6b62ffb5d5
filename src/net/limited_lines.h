// Lines for the log about what others do. A node that is shouted at writes down what it can, and says how much that
// leaves out.
#pragma once

#include "net/allowance.h"

#include <cstdint>
#include <optional>
#include <string>

namespace chaos::net {

class LimitedLines {
public:
    static constexpr double per_second = 10;
    static constexpr double at_once = 200;

    explicit LimitedLines(Allowance::Clock::time_point now) : allowance_(per_second, at_once, now) {}

    // The line to be written; none: it is left out.
    [[nodiscard]] std::optional<std::string> next(std::string text, Allowance::Clock::time_point now) {
        if (!allowance_.take_if_left(1, now)) {
            ++left_out_;
            return std::nullopt;
        }
        if (left_out_ > 0) text += "; " + std::to_string(left_out_) + " lines like it were left out before";
        left_out_ = 0;
        return text;
    }

private:
    Allowance allowance_;
    std::uint64_t left_out_ = 0;
};

}  // namespace chaos::net
