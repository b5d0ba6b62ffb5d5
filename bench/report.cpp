#include "report.h"

#include "base/assert.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace chaos::bench {
namespace {

double significant(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.4g", value);
    return std::strtod(text.data(), nullptr);
}

std::vector<std::size_t> widths_of(const Table& table) {
    std::vector<std::size_t> widths(table.head.size());
    const auto widen = [&](const std::vector<std::string>& cells) {
        CHAOS_ASSERT(cells.size() == widths.size());
        for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
    };
    widen(table.head);
    for (const auto& row : table.rows) widen(row);
    return widths;
}

}  // namespace

double load_average() {
    double load = 0.0;
    return ::getloadavg(&load, 1) == 1 ? load : 0.0;
}

MachineUse::Ticks MachineUse::now() {
    std::ifstream file("/proc/stat");
    std::string word;
    file >> word;
    Ticks ticks;
    double value = 0.0;
    for (int i = 0; i < 8 && file >> value; ++i) {
        ticks.all += value;
        if (i != 3 && i != 4) ticks.busy += value;  // idle, waiting for disks
    }
    return ticks;
}

double MachineUse::share() const {
    const Ticks after = now();
    return after.all > before_.all ? (after.busy - before_.busy) / (after.all - before_.all) : 0.0;
}

double median(std::vector<double> values) {
    CHAOS_ASSERT(!values.empty());
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

std::string fixed(double value, int digits) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.*f", digits, value);
    return text.data();
}

std::string table_text(const Table& table) {
    const std::vector<std::size_t> widths = widths_of(table);
    std::string text;
    const auto add = [&](const std::vector<std::string>& cells) {
        for (std::size_t i = 0; i < cells.size(); ++i) {
            const std::string padding(widths[i] - cells[i].size(), ' ');
            text += i == 0 ? cells[i] + padding : "  " + padding + cells[i];
        }
        text += '\n';
    };
    add(table.head);
    for (const auto& row : table.rows) add(row);
    return text;
}

std::string json_line(const std::string& bench, double load, const std::vector<Figure>& figures) {
    nlohmann::ordered_json line = {{"bench", bench}, {"load", significant(load)}};
    nlohmann::ordered_json& values = line["figures"] = nlohmann::ordered_json::object();
    for (const Figure& figure : figures) {
        CHAOS_ASSERT(std::isfinite(figure.value));
        values[figure.name] = significant(figure.value);
    }
    return line.dump();
}

}  // namespace chaos::bench
