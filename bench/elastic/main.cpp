// ./dev bench elastic [SECTION...] [--quick] [--state MB] [--neighbours N] [--rate MBIT] [--times N]: real nodes train
// together in the testbed while somebody joins, and on this machine while others come and go. The testbed needs root.
#include "churn.h"
#include "donors.h"
#include "events.h"
#include "report.h"
#include "scaleout.h"
#include "stall.h"
#include "twins.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace chaos::bench {
namespace {

using Measurement = std::function<Result<Table>(const Wish&, std::vector<Figure>&)>;

int measure(int count, char** values) {
    const std::vector<std::pair<std::string, Measurement>> known = {
        {"scaleout", measure_scale_out},
        {"donors", measure_lost_donors},
        {"stall", measure_stall},
        {"twins", measure_twins},
        {"churn", [](const Wish& wish, std::vector<Figure>& figures) { return measure_churn(wish.quick, figures); }},
        {"events", [](const Wish& wish, std::vector<Figure>& figures) { return measure_events(wish.quick, figures); }}};
    std::vector<std::string> names;
    for (const auto& [name, measurement] : known) names.push_back(name);
    CLI::App program("What joins cost, and what churn, events and failures do.", "bench_elastic");
    std::vector<std::string> sections;
    Wish wish;
    program.add_option("sections", sections, "Which of them (default: all)")->check(CLI::IsMember(names));
    program.add_flag("--quick", wish.quick, "Fewer settings, fewer times");
    program.add_option("--state", wish.state_mb, "scaleout: only of a state of so many MB");
    program.add_option("--neighbours", wish.neighbours, "scaleout: only from so many");
    program.add_option("--rate", wish.rate_mbit, "stall: only over links of so many Mbit/s");
    program.add_option("--times", wish.times, "How often each is measured");
    CLI11_PARSE(program, count, values);
    const double load = load_average();
    std::vector<Figure> figures;
    for (const auto& [name, measurement] : known) {
        if (!sections.empty() && std::ranges::find(sections, name) == sections.end()) continue;
        const Result<Table> table = measurement(wish, figures);
        if (!table) {
            std::fprintf(stderr, "bench elastic: %s\n", table.error().message.c_str());
            return 1;
        }
        std::printf("%s\n", table_text(*table).c_str());
        std::fflush(stdout);
    }
    std::printf("%s\n", json_line("elastic", load, figures).c_str());
    return 0;
}

}  // namespace
}  // namespace chaos::bench

int main(int count, char** values) {
    try {
        return chaos::bench::measure(count, values);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench elastic: %s\n", error.what());
        return 1;
    }
}
