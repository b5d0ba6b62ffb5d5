// ./dev bench infer [--quick] [kernels|window]: how near the inference engine's kernels come to what the machine can
// do, measured in the same run: reading weights as fast as memory gives them, multiplying as fast as a core can; and
// what a memory smaller than the weights costs (window.h).
#include "base/cpu_time.h"
#include "busy_core.h"
#include "machine.h"
#include "report.h"
#include "weights.h"
#include "window.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <string>

namespace chaos::bench {
namespace {

using infer::Format;
using infer::Pool;

constexpr std::size_t prompt_tokens = 128;

struct Report {
    Table table{{"what", "value", "wanted"}, {}};
    std::vector<Figure> figures;

    void add(const std::string& name, double value, int digits, const std::string& wanted) {
        table.rows.push_back({name, fixed(value, digits), wanted});
        figures.push_back({name, value});
    }
};

// "q4"
std::string short_name(Format format) {
    const std::string name = infer::name_of(format);
    return name.substr(0, name.find('_'));
}

template <class Work>
double seconds_of(const Work& work) {
    const double start = seconds_now();
    work();
    return seconds_now() - start;
}

// The time of all parts, of each the best that was seen: a neighbour that takes the core for a moment spoils one.
class BestTimes {
public:
    template <class Work>
    void take(const Work& work) {
        for (std::size_t part = 0; part < BenchWeights::parts; ++part)
            best_[part] = std::min(best_[part], seconds_of([&] { work(part); }));
    }
    [[nodiscard]] double sum() const { return std::accumulate(best_.begin(), best_.end(), 0.0); }

private:
    std::vector<double> best_ = std::vector<double>(BenchWeights::parts, 1e9);
};

// Reads and products take turns, so that both meet the same neighbours.
void measure_decode(BenchWeights& weights, Format format, std::size_t threads, int rounds, Report& report) {
    Pool pool(threads);
    constexpr std::array<std::size_t, 4> streams{1, 2, 4, 8};
    std::array<BestTimes, streams.size()> reads;
    BestTimes decode;
    weights.prepare(1);
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < streams.size(); ++i) {
            reads[i].take([&](std::size_t part) { read_all(pool, weights.bytes(part), streams[i]); });
            decode.take([&](std::size_t part) { weights.multiply_part(pool, part); });
        }
    }
    double best_read = 1e9;
    for (const BestTimes& read : reads) best_read = std::min(best_read, read.sum());
    const std::string name = "_" + short_name(format) + "_" + std::to_string(threads) + "t_";
    report.add("read" + name + "gb_per_s", static_cast<double>(weights.bytes()) / best_read * 1e-9, 2, "");
    report.add("kernels_decode" + name + "bandwidth_share", best_read / decode.sum(), 3,
               is_quantized(format) ? ">= 0.9" : "");
}

// One thread: the peak is one core's. The first layer stands for all. Its CPU time counts, as others take turns on the
// core.
void measure_prefill(BenchWeights& weights, Format format, int rounds, Report& report) {
    Pool pool(1);
    constexpr std::size_t layer_parts = 4;
    double peak = 0.0;
    std::array<double, layer_parts> best{};
    best.fill(1e18);
    weights.prepare(prompt_tokens);
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t part = 0; part < layer_parts; ++part) {
            peak = std::max(peak, is_quantized(format) ? byte_peak() : float_peak());
            const auto start = static_cast<double>(thread_cpu_ns());
            weights.multiply_part(pool, part);
            best[part] = std::min(best[part], static_cast<double>(thread_cpu_ns()) - start);
        }
    }
    const double seconds = std::accumulate(best.begin(), best.end(), 0.0) * 1e-9;
    const double rate = static_cast<double>(prompt_tokens) * BenchWeights::layer_multiply_adds() / seconds;
    report.add("kernels_prefill_" + short_name(format) + "_peak_share", rate / peak, 3,
               is_quantized(format) ? ">= 0.6" : ">= 0.8");
}

// Tokens per second of several sequences at once, against one.
void measure_batches(BenchWeights& weights, Format format, int rounds, Report& report) {
    Pool pool(2);
    for (const std::size_t batch : {2U, 4U, 8U}) {
        BestTimes alone;
        BestTimes together;
        for (int round = 0; round < rounds; ++round) {
            weights.prepare(1);
            alone.take([&](std::size_t part) { weights.multiply_part(pool, part); });
            weights.prepare(batch);
            together.take([&](std::size_t part) { weights.multiply_part(pool, part); });
        }
        report.add("kernels_decode_" + short_name(format) + "_batch" + std::to_string(batch) + "_speedup",
                   alone.sum() * static_cast<double>(batch) / together.sum(), 2, batch == 4 ? ">= 2.5" : "");
    }
}

// Tokens per second on 2 threads against 1, while another process uses a core.
Result<void> measure_busy_core(BenchWeights& weights, std::size_t tokens, Report& report) {
    CHAOS_TRY(const BusyCore busy, BusyCore::start());
    Pool one(1);
    Pool two(2);
    std::vector<double> ratios;
    weights.prepare(1);
    for (int round = 0; round < 7; ++round) {
        const auto seconds = [&](Pool& pool) {
            return seconds_of([&] {
                for (std::size_t i = 0; i < tokens * BenchWeights::parts; ++i)
                    weights.multiply_part(pool, i % BenchWeights::parts);
            });
        };
        ratios.push_back(seconds(one) / seconds(two));
    }
    report.add("kernels_busy_core_2t_vs_1t", median(ratios), 3, ">= 1");
    report.add("kernels_busy_core_2t_vs_1t_worst", *std::ranges::min_element(ratios), 3, "");
    return {};
}

// Ratios of the window have a limit.
std::string wanted_of(const std::string& figure) {
    if (figure.ends_with("peak_of_budget")) return "<= 1.1";
    return figure.ends_with("time_ratio") ? "<= 1.15" : "";
}

Result<void> measure_kernels(bool quick, Report& report) {
    const int rounds = quick ? 3 : 10;
    for (const Format format : {Format::q4_0, Format::q8_0, Format::f16, Format::bf16}) {
        CHAOS_TRY(BenchWeights weights, BenchWeights::make(format));
        for (const std::size_t threads : {1U, 2U}) measure_decode(weights, format, threads, rounds, report);
        measure_prefill(weights, format, quick ? 10 : 30, report);
        if (format != Format::q4_0) continue;
        measure_batches(weights, format, quick ? 2 : 5, report);
        CHAOS_CHECK(measure_busy_core(weights, quick ? 10 : 40, report));
    }
    return {};
}

Result<void> run_bench(bool quick, const std::string& section) {
    const double load = load_average();
    Report report;
    if (section != "window") CHAOS_CHECK(measure_kernels(quick, report));
    if (section != "kernels") {
        CHAOS_TRY(const auto figures, measure_window(quick));
        for (const Figure& figure : figures) report.add(figure.name, figure.value, 3, wanted_of(figure.name));
    }
    std::printf("%s%s\n", table_text(report.table).c_str(), json_line("infer", load, report.figures).c_str());
    return {};
}

}  // namespace
}  // namespace chaos::bench

int main(int count, char** arguments) {
    using namespace chaos::bench;
    bool quick = false;
    std::string section;
    for (int i = 1; i < count; ++i) {
        const std::string argument = arguments[i];
        if (argument == "--quick") {
            quick = true;
        } else if (section.empty() && (argument == "kernels" || argument == "window")) {
            section = argument;
        } else {
            std::fprintf(stderr, "usage: bench_infer [--quick] [kernels|window]\n");
            return 1;
        }
    }
    const chaos::Result<void> done = run_bench(quick, section);
    if (done.ok()) return 0;
    std::fprintf(stderr, "%s\n", done.error().message.c_str());
    return 1;
}
