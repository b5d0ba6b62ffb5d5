// ./dev bench links [--quick]: what links and collectives reach, as ratios to bare rivals on the same machine in the
// same run.
#include "all_reduce.h"
#include "report.h"
#include "streams.h"

#include <cstdio>
#include <cstring>
#include <string>

using namespace chaos::bench;

namespace {

void compare_with_gloo(bool quick, std::vector<Figure>& figures) {
    Table table{.head = {"all-reduce", "processes", "plan", "ours", "Gloo's ring", "ratio"}, .rows = {}};
    for (const bool tls : {false, true}) {
        for (const unsigned processes : {2U, 4U}) {
            for (const bool large : {true, false}) {
                const std::size_t bytes = large ? 64 << 20 : 4 << 10;
                const unsigned rounds = large ? (quick ? 3 : 7) : (quick ? 5 : 15);
                const AllReduceFigures seen =
                    compare_all_reduce(processes, bytes / sizeof(float), tls, rounds, large ? 4 : 500);
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
    std::printf("%s\n", table_text(table).c_str());
}

void compare_with_openssl(bool quick, std::vector<Figure>& figures) {
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
    std::printf("%s\n", table_text(table).c_str());
}

}  // namespace

int main(int argc, char** argv) {
    const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
    const double load = load_average();
    std::vector<Figure> figures;
    compare_with_gloo(quick, figures);
    compare_with_openssl(quick, figures);
    figures.push_back({"int8_bytes_ratio", int8_bytes_ratio(1 << 20)});
    std::printf("%s\n", json_line("links", load, figures).c_str());
    return 0;
}
