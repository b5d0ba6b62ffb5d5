#include "cli/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace chaos::cli {
namespace {

// Braille-free on purpose: half blocks exist in every terminal font. Two points per character, one above the other.
constexpr const char* upper = "\u2580";
constexpr const char* lower = "\u2584";

}  // namespace

std::string plot(std::span<const double> values, std::size_t first_index, std::size_t columns, std::size_t rows) {
    if (values.empty()) return {};
    columns = std::min(columns, values.size());
    std::vector<double> means(columns);
    for (std::size_t c = 0; c < columns; ++c) {
        const std::size_t begin = c * values.size() / columns;
        const std::size_t end = (c + 1) * values.size() / columns;
        double sum = 0.0;
        for (std::size_t i = begin; i < end; ++i) sum += values[i];
        means[c] = sum / static_cast<double>(end - begin);
    }
    const auto [low, high] = std::minmax_element(means.begin(), means.end());
    const double range = std::max(*high - *low, 1e-12);
    const std::size_t points = rows * 2;
    const auto height = [&](double value) {
        return std::min(points - 1, static_cast<std::size_t>((value - *low) / range * static_cast<double>(points)));
    };
    std::string text;
    for (std::size_t row = rows; row-- > 0;) {
        char label[16] = "         ";
        if (row == rows - 1) std::snprintf(label, sizeof label, "%8.3f ", *high);
        if (row == 0) std::snprintf(label, sizeof label, "%8.3f ", *low);
        text += label;
        text += "\u2502";
        for (const double mean : means) {
            const std::size_t point = height(mean);
            text += point / 2 != row ? " " : point % 2 == 1 ? upper : lower;
        }
        text += "\n";
    }
    text += "         \u2514";
    for (std::size_t c = 0; c < columns; ++c) text += "\u2500";
    const std::string first = std::to_string(first_index);
    const std::string last = std::to_string(first_index + values.size() - 1);
    text += "\n          " + first;
    if (columns > first.size() + last.size()) text.append(columns - first.size() - last.size(), ' ') += last;
    return text + "\n";
}

}  // namespace chaos::cli
