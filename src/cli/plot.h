// A curve drawn in the terminal.
#pragma once

#include <span>
#include <string>

namespace chaos::cli {

// Draws values over their index in `columns` x `rows` characters, axis labels included. Each column shows the mean of
// the values that fall into it.
[[nodiscard]] std::string plot(std::span<const double> values, std::size_t first_index, std::size_t columns = 72,
                               std::size_t rows = 16);

}  // namespace chaos::cli
