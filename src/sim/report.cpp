#include "sim/report.h"

#include "base/file.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>

namespace chaos::sim {
namespace {

constexpr int width = 960;
constexpr int height = 180;
constexpr int left = 60;

std::string number(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), value < 10 ? "%.2f" : "%.0f", value);
    return text.data();
}

std::string escaped(const std::string& text) {
    std::string safe;
    for (const char c : text) {
        if (c == '<')
            safe += "&lt;";
        else if (c == '>')
            safe += "&gt;";
        else if (c == '&')
            safe += "&amp;";
        else
            safe += c;
    }
    return safe;
}

struct Line {
    const char* label;
    const char* colour;
    std::function<double(std::size_t)> at;  // by the number of the sample
};

// A chart over the whole run, with a thin mark for each fault.
class Chart {
public:
    Chart(const World& world, Time end) : world_(world), end_(std::max<Time>(end, 1)) {}

    [[nodiscard]] std::string draw(const std::string& title, const std::vector<Line>& lines) const {
        const auto& samples = world_.samples();
        double top = 0;
        for (const Line& line : lines)
            for (std::size_t i = 0; i < samples.size(); ++i) top = std::max(top, line.at(i));
        top = std::max(top, 1e-9) * 1.1;
        std::string svg = "<h2>" + title + "</h2>\n<svg viewBox=\"0 0 " + std::to_string(width) + " " +
                          std::to_string(height + 30) + "\">\n";
        for (const Mark& mark : world_.marks())
            svg += "<line class=\"mark\" x1=\"" + x(mark.at) + "\" x2=\"" + x(mark.at) + "\" y1=\"0\" y2=\"" +
                   std::to_string(height) + "\"><title>" + escaped(mark.text) + "</title></line>\n";
        svg += axes(top);
        int legend = left + 10;
        for (const Line& line : lines) {
            std::string points;
            for (std::size_t i = 0; i < samples.size(); ++i) {
                const int y = height - static_cast<int>(line.at(i) / top * height);
                points += x(samples[i].at) + "," + std::to_string(y) + " ";
            }
            svg += "<polyline fill=\"none\" stroke=\"" + std::string(line.colour) + "\" points=\"" + points + "\"/>\n";
            svg += "<text x=\"" + std::to_string(legend) + "\" y=\"14\" fill=\"" + line.colour + "\">" + line.label +
                   "</text>\n";
            legend += 12 + 8 * static_cast<int>(std::string_view(line.label).size());
        }
        return svg + "</svg>\n";
    }

private:
    [[nodiscard]] std::string x(Time at) const {
        return std::to_string(
            left + static_cast<int>(static_cast<double>(at) / static_cast<double>(end_) * (width - left - 10)));
    }
    [[nodiscard]] std::string axes(double top) const {
        std::string svg;
        for (int i = 0; i <= 4; ++i) {
            const std::string y = std::to_string(height - height * i / 4);
            svg += "<line class=\"grid\" x1=\"" + std::to_string(left) + "\" x2=\"" + std::to_string(width - 10) +
                   "\" y1=\"" + y + "\" y2=\"" + y + "\"/><text class=\"scale\" x=\"" + std::to_string(left - 6) +
                   "\" y=\"" + std::to_string(height - height * i / 4 + 4) + "\">" + number(top * i / 4) + "</text>\n";
        }
        for (int i = 0; i <= 8; ++i) {
            const Time at = end_ / 8 * i;
            svg += "<text class=\"time\" x=\"" + x(at) + "\" y=\"" + std::to_string(height + 18) + "\">" +
                   number(static_cast<double>(at) / second) + " s</text>\n";
        }
        return svg;
    }

    const World& world_;
    Time end_;
};

std::string row(const std::string& name, const std::string& value) {
    return "<tr><td>" + name + "</td><td>" + value + "</td></tr>\n";
}

std::string figures(const World& world, const Outcome& outcome) {
    const Statistics& s = outcome.statistics;
    const double seconds = static_cast<double>(std::max<Time>(s.ended_at, 1)) / second;
    const double samples = static_cast<double>(s.steps) * world.setup().batch;
    std::string table = "<table>\n";
    table += row("virtual time", number(seconds) + " s");
    table += row("committed steps", std::to_string(s.steps));
    table += row("goodput", number(samples / seconds) + " samples per second");
    table += row("views", std::to_string(s.views) + ", of these " + std::to_string(s.forks) + " forks and " +
                              std::to_string(s.foundings) + " foundings");
    table += row("stalled", number(static_cast<double>(s.stalled) / second) + " node-seconds");
    table +=
        row("all train together again", number(static_cast<double>(s.recovered) / second) + " s after the last fault");
    table += row("messages of the core", std::to_string(s.messages) + " of " +
                                             number(static_cast<double>(s.bytes) /
                                                    static_cast<double>(std::max<std::uint64_t>(s.messages, 1))) +
                                             " bytes on average");
    table += row("most bytes for", busiest_kinds(s));
    return table + "</table>\n";
}

}  // namespace

std::string report_page(const World& world, const Outcome& outcome) {
    const auto& samples = world.samples();
    // What happened in the interval that ends at sample i, per second.
    const auto per_second = [&](std::size_t i, auto field, double unit) {
        if (i == 0) return 0.0;
        const double passed = static_cast<double>(samples[i].at - samples[i - 1].at) / second;
        return passed <= 0 ? 0.0 : static_cast<double>(field(samples[i]) - field(samples[i - 1])) / unit / passed;
    };
    const Chart chart(world, outcome.statistics.ended_at);
    std::string page =
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>chaos sim --seed " +
        std::to_string(outcome.seed) +
        "</title>\n<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 "
        "1rem;color:#222}"
        "svg{width:100%;background:#fafafa}text{font-size:11px}.grid{stroke:#ddd}.mark{stroke:#e08a00;opacity:.55}"
        ".scale{text-anchor:end;fill:#777}.time{text-anchor:middle;fill:#777}polyline{stroke-width:1.6}"
        "td{padding:.1rem 1rem .1rem 0}h2{font-size:1rem;margin:1.4rem 0 .3rem}.bad{color:#b00020;white-space:pre-wrap}"
        "ol{columns:2}</style></head><body>\n<h1>Seed " +
        std::to_string(outcome.seed) + "</h1>\n<p>Scenario " + escaped(outcome.scenario) + ", " +
        std::to_string(outcome.nodes) + " nodes at the start, policy " + (outcome.strict ? "strict" : "continue") +
        ".</p>\n";
    page +=
        outcome.failure ? "<p class=\"bad\">" + escaped(*outcome.failure) + "</p>\n" : "<p>All invariants held.</p>\n";
    page += figures(world, outcome);
    page += chart.draw(
        "Members (orange: a fault)",
        {{"processes running", "#999", [&](std::size_t i) { return static_cast<double>(samples[i].running); }},
         {"active members", "#0a7d32", [&](std::size_t i) { return static_cast<double>(samples[i].active); }},
         {"different views", "#b00020", [&](std::size_t i) { return static_cast<double>(samples[i].lines); }}});
    page += chart.draw("Goodput, samples per second",
                       {{"committed", "#1f5fbf", [&](std::size_t i) {
                             return per_second(
                                        i, [](const Sample& s) { return static_cast<std::int64_t>(s.steps); }, 1.0) *
                                    world.setup().batch;
                         }}});
    page +=
        chart.draw("Stalled members",
                   {{"on average", "#b00020", [&](std::size_t i) {
                         return per_second(i, [](const Sample& s) { return s.stalled; }, static_cast<double>(second));
                     }}});
    page += chart.draw("Messages of the core, per second",
                       {{"all nodes", "#6a3fb5", [&](std::size_t i) {
                             return per_second(
                                 i, [](const Sample& s) { return static_cast<std::int64_t>(s.messages); }, 1.0);
                         }}});
    page += "<h2>Faults</h2>\n<ol>\n";
    for (const Mark& mark : world.marks()) page += "<li>" + escaped(mark.text) + "</li>\n";
    return page + "</ol>\n</body></html>\n";
}

Result<void> write_report(const std::filesystem::path& path, const World& world, const Outcome& outcome) {
    return write_file_atomically(path, report_page(world, outcome));
}

}  // namespace chaos::sim
