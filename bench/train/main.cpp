// ./dev bench train [--quick]: a step of `chaos train` against the same step of a plain LibTorch loop.
#include "memory.h"
#include "report.h"
#include "speed.h"
#include "workload.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace chaos::bench {
namespace {

constexpr int pairs = 30;
constexpr int quick_pairs = 10;
constexpr double mebibyte = 1024.0 * 1024.0;

struct Measurement {
    Speed speed;
    double chaos_bytes = 0.0;
    double plain_bytes = 0.0;

    [[nodiscard]] double memory_ratio() const { return chaos_bytes / plain_bytes; }
};

Result<Measurement> measure(const std::string& model, const std::string& text, bool quick) {
    Measurement measurement;
    CHAOS_TRY(const auto chaos_bytes, peak_of_child("chaos", model, text));
    CHAOS_TRY(const auto plain_bytes, peak_of_child("plain", model, text));
    measurement.chaos_bytes = static_cast<double>(chaos_bytes);
    measurement.plain_bytes = static_cast<double>(plain_bytes);
    CHAOS_TRY(const run::Run run, workload(model, text));
    CHAOS_TRY(const PlainLibrary library, PlainLibrary::load());
    CHAOS_TRY(measurement.speed, measure_speed(library, run, quick ? quick_pairs : pairs));
    return measurement;
}

Result<void> run_bench(bool quick) {
    const double load = load_average();
    CHAOS_TRY(const TextFile text, TextFile::write());
    Table table{
        {"model", "chaos samples/s", "plain samples/s", "speed ratio", "chaos MiB", "plain MiB", "memory ratio"}, {}};
    std::vector<Figure> figures;
    double largest_memory_ratio = 0.0;
    for (const std::string_view name : model_names) {
        const std::string model(name);
        CHAOS_TRY(const Measurement m, measure(model, text.path(), quick));
        table.rows.push_back({model, fixed(m.speed.chaos_samples_per_s, 2), fixed(m.speed.plain_samples_per_s, 2),
                              fixed(m.speed.ratio(), 3), fixed(m.chaos_bytes / mebibyte, 0),
                              fixed(m.plain_bytes / mebibyte, 0), fixed(m.memory_ratio(), 3)});
        figures.push_back({model + "_speed_ratio", m.speed.ratio()});
        figures.push_back({model + "_memory_ratio", m.memory_ratio()});
        figures.push_back({model + "_chaos_samples_per_s", m.speed.chaos_samples_per_s});
        figures.push_back({model + "_plain_samples_per_s", m.speed.plain_samples_per_s});
        largest_memory_ratio = std::max(largest_memory_ratio, m.memory_ratio());
    }
    figures.push_back({"memory_ratio", largest_memory_ratio});
    std::printf("%s%s\n", table_text(table).c_str(), json_line("train", load, figures).c_str());
    return {};
}

// What a child of peak_of_child does.
Result<void> run_alone(const std::string& side, const std::string& model, const std::string& text) {
    CHAOS_TRY(const run::Run run, workload(model, text));
    CHAOS_TRY(const std::uint64_t bytes, train_alone(side, run));
    std::printf("%llu\n", static_cast<unsigned long long>(bytes));
    return {};
}

Result<void> dispatch(const std::vector<std::string>& arguments) {
    if (arguments.size() == 4 && arguments[0] == train_alone_flag)
        return run_alone(arguments[1], arguments[2], arguments[3]);
    if (arguments.empty()) return run_bench(false);
    if (arguments.size() == 1 && arguments[0] == "--quick") return run_bench(true);
    return Error{"usage: bench_train [--quick]"};
}

}  // namespace
}  // namespace chaos::bench

int main(int count, char** arguments) {
    const auto done = chaos::bench::dispatch({arguments + 1, arguments + count});
    if (done) return 0;
    std::fprintf(stderr, "bench_train: %s\n", done.error().message.c_str());
    return 1;
}
