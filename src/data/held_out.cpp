#include "data/held_out.h"

#include <array>
#include <charconv>
#include <cmath>

namespace chaos::data {

Result<void> check_held_out(double held_out) {
    if (!(held_out >= 0)) return Error{held_out_text(held_out) + " must be 0 or more"};
    if (held_out >= 1 && held_out != std::floor(held_out)) {
        return Error{held_out_text(held_out) + " must be a share below 1 or a whole number of samples"};
    }
    return {};
}

std::uint64_t share_of(double share, std::uint64_t items) {
    return static_cast<std::uint64_t>(std::round(share * static_cast<double>(items)));
}

Result<std::uint64_t> held_out_of(double held_out, std::uint64_t samples) {
    CHAOS_CHECK(check_held_out(held_out));
    if (held_out == 0) return std::uint64_t{0};
    const std::string of_samples = " of " + std::to_string(samples) + (samples == 1 ? " sample" : " samples");
    // Compared as numbers with a fraction first: not every double fits an integer.
    const bool everything = held_out >= static_cast<double>(samples);
    const std::uint64_t count = held_out < 1 ? share_of(held_out, samples)
                                : everything ? samples
                                             : static_cast<std::uint64_t>(held_out);
    if (count == 0) return Error{held_out_text(held_out) + of_samples + " is less than one sample"};
    if (count >= samples) return Error{held_out_text(held_out) + of_samples + " leaves nothing to train on"};
    return count;
}

std::string held_out_text(double held_out) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), held_out).ptr;
    return "data.held_out = " + std::string(digits.data(), end);
}

}  // namespace chaos::data
