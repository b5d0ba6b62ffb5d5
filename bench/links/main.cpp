// ./dev bench links [--quick] [all-reduce|streams|shaped|round-trips|hetero]...: what links and collectives reach, as
// ratios to bare rivals on the same machine in the same run. The last three run in the testbed and need root.
#include "all_reduce.h"
#include "hetero.h"
#include "report.h"
#include "shaped.h"
#include "streams.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace chaos::bench {
namespace {

Result<Table> compare_with_gloo(bool quick, std::vector<Figure>& figures) {
    Table table{.head = {"all-reduce", "processes", "plan", "ours", "Gloo's ring", "ratio"}, .rows = {}};
    for (const bool tls : {false, true}) {
        for (const unsigned processes : {2U, 4U}) {
            for (const bool large : {true, false}) {
                const std::size_t bytes = large ? 64 << 20 : 4 << 10;
                const unsigned rounds = large ? (quick ? 3 : 7) : (quick ? 7 : 25);
                const AllReduceFigures seen =
                    compare_all_reduce(processes, bytes / sizeof(float), tls, rounds, large ? 4 : 100);
                const std::string size = large ? "64mb" : "4kb";
                const double ratio = seen.gloo_s / seen.chaos_s;
                const int digits = large ? 1 : 3;
                table.rows.push_back({size + (tls ? ", TLS" : ""), std::to_string(processes), seen.shape,
                                      fixed(seen.chaos_s * 1e3, digits) + " ms",
                                      fixed(seen.gloo_s * 1e3, digits) + " ms", fixed(ratio, 2)});
                figures.push_back(
                    {"allreduce_" + size + "_" + std::to_string(processes) + "_vs_gloo" + (tls ? "_tls" : ""), ratio});
            }
        }
    }
    figures.push_back({"int8_bytes_ratio", int8_bytes_ratio(1 << 20)});
    return table;
}

Result<Table> compare_with_openssl(bool quick, std::vector<Figure>& figures) {
    Table table{.head = {"a link, TLS", "ours", "bare OpenSSL", "ratio"}, .rows = {}};
    const StreamFigures streams = compare_streams(quick ? 3 : 9);
    const double rate = streams.bytes_per_s / streams.bare_bytes_per_s;
    table.rows.push_back({"bulk stream", fixed(streams.bytes_per_s * 1e-9, 2) + " GB/s",
                          fixed(streams.bare_bytes_per_s * 1e-9, 2) + " GB/s", fixed(rate, 2)});
    const RoundTripFigures trips = compare_round_trips(quick ? 5 : 15);
    const double delay = trips.median_s / trips.bare_median_s;
    table.rows.push_back({"round trip", fixed(trips.median_s * 1e6, 1) + " us",
                          fixed(trips.bare_median_s * 1e6, 1) + " us", fixed(delay, 2)});
    figures.push_back({"tls_stream_ratio", rate});
    figures.push_back({"rtt_ratio", delay});
    figures.push_back({"rtt_p99_us", trips.p99_s * 1e6});
    return table;
}

// This program is started again in the testbed's hosts.
int play(const std::vector<std::string>& arguments) {
    if (arguments.size() > 1 && arguments[1] == "shaped") return play_shaped({arguments.begin() + 2, arguments.end()});
    if (arguments.size() > 1 && arguments[1] == "hetero") return play_hetero({arguments.begin() + 2, arguments.end()});
    return 2;
}

int measure(std::vector<std::string> wished) {
    const bool quick = std::erase(wished, "--quick") > 0;
    using Measurement = std::function<Result<Table>(bool, std::vector<Figure>&)>;
    const std::vector<std::pair<std::string, Measurement>> known = {{"all-reduce", compare_with_gloo},
                                                                    {"streams", compare_with_openssl},
                                                                    {"shaped", compare_with_iperf},
                                                                    {"round-trips", measure_round_trips},
                                                                    {"hetero", compare_plans}};
    for (const std::string& name : wished) {
        if (std::ranges::find(known, name, &std::pair<std::string, Measurement>::first) != known.end()) continue;
        std::fprintf(stderr, "bench links: there is no \"%s\"\n", name.c_str());
        return 2;
    }
    const double load = load_average();
    std::vector<Figure> figures;
    for (const auto& [name, measurement] : known) {
        if (!wished.empty() && std::ranges::find(wished, name) == wished.end()) continue;
        const Result<Table> table = measurement(quick, figures);
        if (!table) {
            std::fprintf(stderr, "bench links: %s\n", table.error().message.c_str());
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
        std::fprintf(stderr, "bench links: %s\n", error.what());
        return 1;
    }
}
