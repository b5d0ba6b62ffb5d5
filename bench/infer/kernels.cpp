#include "kernels.h"

#include "base/cpu_time.h"
#include "busy_core.h"
#include "machine.h"
#include "weights.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

namespace chaos::bench {
namespace {

using infer::Format;
using infer::Pool;

constexpr std::size_t prompt_tokens = 128;

// "q4"
std::string short_name(Format format) {
    const std::string name = infer::name_of(format);
    return name.substr(0, name.find('_'));
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
void measure_decode(BenchWeights& weights, Format format, std::size_t threads, int rounds, Findings& findings) {
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
    findings.add("read" + name + "gb_per_s", static_cast<double>(weights.bytes()) / best_read * 1e-9, 2, "");
    findings.add("kernels_decode" + name + "bandwidth_share", best_read / decode.sum(), 3,
                 is_quantized(format) ? ">= 0.9" : "");
}

// One thread: the peak is one core's. The first layer stands for all. Its CPU time counts, as others take turns on the
// core.
void measure_prefill(BenchWeights& weights, Format format, int rounds, Findings& findings) {
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
    findings.add("kernels_prefill_" + short_name(format) + "_peak_share", rate / peak, 3,
                 is_quantized(format) ? ">= 0.6" : ">= 0.8");
}

// Tokens per second of several sequences at once, against one.
void measure_batches(BenchWeights& weights, Format format, int rounds, Findings& findings) {
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
        findings.add("kernels_decode_" + short_name(format) + "_batch" + std::to_string(batch) + "_speedup",
                     alone.sum() * static_cast<double>(batch) / together.sum(), 2, batch == 4 ? ">= 2.5" : "");
    }
}

// Tokens per second on 2 threads against 1, while another process uses a core.
Result<void> measure_busy_core(BenchWeights& weights, std::size_t tokens, Findings& findings) {
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
    findings.add("kernels_busy_core_2t_vs_1t", median(ratios), 3, ">= 1");
    findings.add("kernels_busy_core_2t_vs_1t_worst", *std::ranges::min_element(ratios), 3, "");
    return {};
}

}  // namespace

Result<void> measure_kernels(bool quick, Findings& findings) {
    const int rounds = quick ? 3 : 10;
    for (const Format format : {Format::q4_0, Format::q8_0, Format::f16, Format::bf16}) {
        CHAOS_TRY(BenchWeights weights, BenchWeights::make(format));
        for (const std::size_t threads : {1U, 2U}) measure_decode(weights, format, threads, rounds, findings);
        measure_prefill(weights, format, quick ? 10 : 30, findings);
        if (format != Format::q4_0) continue;
        measure_batches(weights, format, quick ? 2 : 5, findings);
        CHAOS_CHECK(measure_busy_core(weights, quick ? 10 : 40, findings));
    }
    return {};
}

}  // namespace chaos::bench
