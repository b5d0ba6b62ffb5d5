// ./dev bench faults: something goes wrong during an all-reduce, many times over. How long until the survivors know,
// and until they have the step's result; every one of them, with the same bits.
#include "node.h"
#include "report.h"
#include "trial.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

using namespace chaos;
using namespace chaos::bench;

namespace {

double quantile(std::vector<double> values, double share) {
    std::ranges::sort(values);
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (!arguments.empty() && arguments[0] == "node") return run_node({arguments.begin() + 1, arguments.end()});
    const bool quick = std::ranges::find(arguments, "--quick") != arguments.end();
    const unsigned times = quick ? 3 : 50;
    const char* wished = std::getenv("CHAOS_SEED");
    const std::uint64_t seed = wished != nullptr ? std::stoull(wished) : std::random_device{}();
    std::printf("seed %llu (CHAOS_SEED repeats it)\n", static_cast<unsigned long long>(seed));
    const double load = load_average();
    auto box = trial_testbed();
    if (!box) {
        std::fprintf(stderr, "bench faults: %s\n", box.error().message.c_str());
        return 2;
    }
    Table table{.head = {"fault", "times", "failed", "known p50", "p99", "result p50", "p99"}, .rows = {}};
    std::vector<Figure> figures;
    unsigned failed_in_all = 0;
    for (const FaultKind kind : {FaultKind::crash, FaultKind::freeze, FaultKind::blackhole, FaultKind::one_way}) {
        std::vector<double> detection;
        std::vector<double> result;
        unsigned failed = 0;
        for (unsigned i = 0; i < times; ++i) {
            const auto trial = run_trial(*box, kind, seed + i);
            if (!trial) {
                ++failed;
                std::fprintf(stderr, "bench faults: %s, seed %llu: %s\n", name_of(kind).c_str(),
                             static_cast<unsigned long long>(seed + i), trial.error().message.c_str());
                continue;
            }
            detection.push_back(trial->detection_s);
            result.push_back(trial->result_s);
            std::fprintf(stderr, "\r%s %u of %u ", name_of(kind).c_str(), i + 1, times);
        }
        std::fprintf(stderr, "\n");
        failed_in_all += failed;
        if (detection.empty()) continue;
        const auto ms = [](double seconds) { return fixed(seconds * 1e3, 0) + " ms"; };
        table.rows.push_back({name_of(kind), std::to_string(times), std::to_string(failed),
                              ms(quantile(detection, 0.5)), ms(quantile(detection, 0.99)), ms(quantile(result, 0.5)),
                              ms(quantile(result, 0.99))});
        figures.push_back({name_of(kind) + "_detection_p99_ms", quantile(detection, 0.99) * 1e3});
        figures.push_back({name_of(kind) + "_result_p50_ms", quantile(result, 0.5) * 1e3});
        figures.push_back({name_of(kind) + "_result_p99_ms", quantile(result, 0.99) * 1e3});
    }
    const auto alarms = count_false_alarms(*box, std::chrono::seconds(quick ? 5 : 60));
    if (!alarms) {
        std::fprintf(stderr, "bench faults: %s\n", alarms.error().message.c_str());
        return 2;
    }
    figures.push_back({"false_alarms_loaded", static_cast<double>(*alarms)});
    figures.push_back({"faults_failed", static_cast<double>(failed_in_all)});
    std::printf("%s\n%s\n", table_text(table).c_str(), json_line("faults", load, figures).c_str());
    return failed_in_all == 0 ? 0 : 1;
}
