// What of a section is to be measured.
#pragma once

#include <cstddef>
#include <optional>

namespace chaos::bench {

struct Wish {
    bool quick = false;
    // Only this; absent: all that the section has.
    std::optional<double> state_mb{};
    std::optional<std::size_t> neighbours{};
    std::optional<double> rate_mbit{};
    std::optional<unsigned> times{};  // each is measured
};

}  // namespace chaos::bench
