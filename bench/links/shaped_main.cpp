// bench_links_shaped [--quick] [shaped|round-trips|hetero]...: links in the testbed.
#include "hetero.h"
#include "report.h"
#include "shaped.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace chaos::bench {
namespace {

int play(const std::vector<std::string>& arguments) {
    if (arguments.size() > 1 && arguments[1] == "shaped") return play_shaped({arguments.begin() + 2, arguments.end()});
    if (arguments.size() > 1 && arguments[1] == "hetero") return play_hetero({arguments.begin() + 2, arguments.end()});
    return 2;
}

int measure(const std::vector<std::string>& arguments) {
    const bool quick = std::ranges::find(arguments, "--quick") != arguments.end();
    const double load = load_average();
    std::vector<Figure> figures;
    using Measurement = std::function<Result<Table>(bool, std::vector<Figure>&)>;
    for (const auto& [name, measurement] : {std::pair<std::string, Measurement>{"shaped", compare_with_iperf},
                                            {"round-trips", measure_round_trips},
                                            {"hetero", compare_plans}}) {
        const bool all = arguments.empty() || arguments == std::vector<std::string>{"--quick"};
        if (!all && std::ranges::find(arguments, name) == arguments.end()) continue;
        const Result<Table> table = measurement(quick, figures);
        if (!table) {
            std::fprintf(stderr, "bench_links_shaped: %s\n", table.error().message.c_str());
            return 1;
        }
        std::printf("%s\n", table_text(*table).c_str());
        std::fflush(stdout);
    }
    std::printf("%s\n", json_line("links", load, figures).c_str());
    return 0;
}

}  // namespace
}  // namespace chaos::bench

int main(int count, char** values) {
    const std::vector<std::string> arguments(values + 1, values + count);
    try {
        if (!arguments.empty() && arguments[0] == "--part") return chaos::bench::play(arguments);
        return chaos::bench::measure(arguments);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_links_shaped: %s\n", error.what());
        return 1;
    }
}
