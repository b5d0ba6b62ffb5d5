// ./dev bench links: what links and collectives reach, as ratios to bare rivals on the same machine in the same run.
#include "all_reduce.h"
#include "report.h"

#include <cstdio>
#include <cstring>
#include <string>

using namespace chaos::bench;

int main(int argc, char** argv) {
    const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
    const double load = load_average();
    Table table{.head = {"all-reduce", "processes", "ours", "Gloo's ring", "ratio"}, .rows = {}};
    std::vector<Figure> figures;
    const unsigned rounds = quick ? 5 : 15;
    for (const bool tls : {false, true}) {
        for (const unsigned processes : {2U, 4U}) {
            for (const std::size_t bytes : {std::size_t{64} << 20, std::size_t{4} << 10}) {
                const bool large = bytes > (1U << 20);
                const AllReduceFigures seen =
                    compare_all_reduce(processes, bytes / sizeof(float), tls, rounds, large ? 2 : 200);
                const std::string size = large ? "64mb" : "4kb";
                const double ratio = seen.gloo_s / seen.chaos_s;
                const int digits = large ? 1 : 3;
                table.rows.push_back({size + (tls ? ", TLS" : ""), std::to_string(processes),
                                      fixed(seen.chaos_s * 1e3, digits) + " ms",
                                      fixed(seen.gloo_s * 1e3, digits) + " ms", fixed(ratio, 2)});
                figures.push_back(
                    {"allreduce_" + size + "_" + std::to_string(processes) + "_vs_gloo" + (tls ? "_tls" : ""), ratio});
            }
        }
    }
    std::printf("%s\n%s\n", table_text(table).c_str(), json_line("links", load, figures).c_str());
    return 0;
}
