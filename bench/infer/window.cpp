#include "window.h"

#include "infer/direct_reader.h"
#include "infer/engine.h"
#include "infer/huge_pages.h"
#include "infer/packing.h"
#include "machine.h"
#include "synthetic_model.h"
#include "temporary_folder.h"
#include "testbed/process.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Keys and values of so many tokens take a good part of the smallest budget, and the prompt is several full batches of
// the engine, which is what needs the most memory beside weights.
constexpr std::size_t context = 1024;
constexpr std::size_t measured_tokens = 16;

std::string prompt_ids() {
    constexpr std::size_t count = context - measured_tokens;
    static_assert(count >= infer::Engine::max_tokens);
    std::string ids = "1";
    for (std::size_t i = 1; i < count; ++i) ids += "," + std::to_string(1 + i * 7919 % 8000);
    return ids;
}

Result<json> generate(const fs::path& model, const fs::path& cache, std::uint64_t budget_bytes, std::size_t tokens) {
    std::vector<std::string> arguments = {
        CHAOS_PROGRAM,          "generate",         model.string(), "--ids",  prompt_ids(), "--max-tokens",
        std::to_string(tokens), "--no-speculation", "--ignore-eos", "--json", "--cache",    cache.string()};
    if (budget_bytes > 0) {
        arguments.emplace_back("--memory");
        arguments.push_back(std::to_string(budget_bytes / 1000) + "kB");
    }
    CHAOS_TRY(const std::string out, testbed::run_program(arguments));
    return json::parse(out);
}

double seconds_per_token(const json& answer) {
    return 1.0 / answer["tokens_per_second"].get<double>();
}

// Of a file read from end to end, with as many and as large reads as a window has.
Result<double> disk_rate(const fs::path& path, double seconds) {
    constexpr std::size_t depth = 8;
    constexpr std::size_t size = std::size_t{2} << 20;
    CHAOS_TRY(const auto memory, infer::HugePages::allocate(depth * size));
    CHAOS_TRY(const auto reader, infer::DirectReader::open(path, depth));
    const std::uint64_t all = fs::file_size(path) / size;
    std::uint64_t started = 0;
    const auto start = [&](std::size_t tag) {
        reader->start({tag, started++ % all * size, memory.bytes().subspan(tag * size, size)});
    };
    const double begin = seconds_now();
    for (std::size_t tag = 0; tag < depth; ++tag) start(tag);
    std::uint64_t read = 0;
    std::uint64_t ended = 0;
    double rate = 0.0;
    while (ended < started) {
        const auto done = reader->wait();
        ++ended;
        if (done.error) return *done.error;
        read += size;
        const double took = seconds_now() - begin;
        if (took < seconds)
            start(done.tag);
        else if (rate == 0.0)
            rate = static_cast<double>(read) / took;
    }
    return rate;
}

}  // namespace

Result<void> measure_window(bool quick, Findings& findings) {
    const test::TemporaryFolder folder;
    const fs::path model = folder.path() / "model.gguf";
    const fs::path cache = folder.path() / "cache";
    CHAOS_CHECK(write_synthetic_model(model, {}));
    std::uint64_t weights = 0;
    {
        CHAOS_TRY(const auto file, infer::ModelFile::open(model));
        weights = infer::packed_bytes(infer::packed_tensors(file));
    }
    for (const std::uint64_t share : {2U, 4U, 8U}) {
        const std::uint64_t budget = weights / share;
        const std::string name = "window_" + std::to_string(share) + "th_";
        std::vector<double> ratios;
        std::vector<double> forecasts;
        double peak = 0.0;
        double rate = 0.0;
        double streamed = 0.0;
        double taken = 0.0;
        double computed = 0.0;
        CHAOS_CHECK(generate(model, cache, budget, 1));  // makes the packed file
        const fs::path packed = fs::directory_iterator(cache)->path();
        // What is compared takes turns, so that it meets the same neighbours.
        for (int round = 0; round < (quick ? 1 : 3); ++round) {
            CHAOS_TRY(const json whole, generate(model, cache, 0, measured_tokens));
            // Before and after: disks of shared machines give more for a moment than they can keep up.
            CHAOS_TRY(const double before, disk_rate(packed, 1.0));
            CHAOS_TRY(const json windowed, generate(model, cache, budget, measured_tokens));
            CHAOS_TRY(const double after, disk_rate(packed, 1.0));
            rate = (before + after) / 2.0;
            const json& window = windowed["window"];
            computed = seconds_per_token(whole);
            taken = seconds_per_token(windowed);
            streamed = window["read_bytes_per_token"].get<double>();
            peak = std::max(peak, window["peak_resident_bytes"].get<double>());
            ratios.push_back(taken / std::max(computed, streamed / rate));
            forecasts.push_back(taken / window["expected_seconds_per_token"].get<double>());
        }
        findings.add(name + "peak_of_budget", peak / static_cast<double>(budget), 3, "<= 1.1");
        findings.add(name + "token_ms", taken * 1e3, 3);
        findings.add(name + "compute_ms", computed * 1e3, 3);
        findings.add(name + "disk_ms", streamed / rate * 1e3, 3);
        findings.add(name + "disk_gb_per_s", rate * 1e-9, 3);
        findings.add(name + "time_ratio", median(ratios), 3, "<= 1.15");
        findings.add(name + "forecast_ratio", median(forecasts), 3, "0.85..1.15");
    }
    return {};
}

}  // namespace chaos::bench
