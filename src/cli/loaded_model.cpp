#include "cli/loaded_model.h"

#include "base/cores.h"
#include "cli/progress.h"
#include "cli/quantities.h"
#include "infer/packed_file.h"

#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace chaos::cli {
namespace {

// What the program takes after the plan was made and nobody counts: code that runs later, stacks, samplers, output,
// and the end of huge pages.
constexpr std::uint64_t later_bytes = std::uint64_t{6} << 20;

// A number of a file of /proc that counts kilobytes, in bytes.
Result<std::uint64_t> memory_field(const char* path, std::string_view name) {
    std::ifstream file(path);
    std::string word;
    std::uint64_t kibibytes = 0;
    while (file >> word)
        if (word == name && file >> kibibytes) return kibibytes * 1024;
    return Error{std::string(path) + " does not tell " + std::string(name)};
}

std::vector<infer::Batch> batches_of(const infer::Config& config, const infer::Slice& slice,
                                     const LoadOptions& options) {
    constexpr std::size_t fewest_tokens = 16;
    const std::size_t fewest = std::max(options.min_tokens, fewest_tokens);
    std::vector<infer::Batch> batches;
    for (std::size_t tokens = infer::Engine::max_tokens;; tokens = std::max(tokens / 2, fewest)) {
        const std::size_t logits = std::min(tokens, options.logits);
        // Of the other members' logits, too.
        const std::uint64_t others =
            options.slice ? logits * static_cast<std::uint64_t>(config.vocab) * sizeof(float) : 0;
        batches.push_back({tokens, infer::Engine::bytes(infer::part_of(config, slice), tokens, logits) + others});
        if (tokens <= fewest) return batches;
    }
}

void show_forecast(const LoadedModel& loaded) {
    const infer::Window& window = *loaded.model->window();
    const infer::Forecast& forecast = *loaded.forecast;
    std::fprintf(stderr, "%s\nexpecting %.0f ms per token: %.0f ms to read at %s/s (%s), %.0f ms to compute\n",
                 window.plan().explanation.c_str(), forecast.token_s() * 1e3, forecast.disk_s() * 1e3,
                 infer::bytes_text(static_cast<std::uint64_t>(forecast.disk_bytes_per_s)).c_str(), window.reader_name(),
                 forecast.compute_s * 1e3);
}

}  // namespace

std::size_t threads_or_all(std::size_t threads) {
    return threads > 0 ? threads : threads_for_all_cores();
}

Result<std::uint64_t> resident_bytes() {
    return memory_field("/proc/self/status", "VmRSS:");
}

Result<std::uint64_t> budget_bytes(const MemoryOptions& options) {
    if (!options.budget.empty()) return parse_bytes(options.budget, "--memory");
    CHAOS_TRY(std::uint64_t available, memory_field("/proc/meminfo", "MemAvailable:"));
    // A container's limit is not the machine's, and who takes more is killed.
    if (const auto left = memory_left_by_groups()) available = std::min(available, *left);
    // Some stays for others; what the program has already is not among the available.
    CHAOS_TRY(const std::uint64_t resident, resident_bytes());
    return available / 10 * 9 + resident;
}

Result<std::filesystem::path> cache_folder(const MemoryOptions& options) {
    if (!options.cache.empty()) return options.cache;
    if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && *folder == '/')
        return std::filesystem::path(folder) / "chaos";
    if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
        return std::filesystem::path(home) / ".cache" / "chaos";
    return Error{"there is no folder for what is kept on disk of models: name one by --cache"};
}

Result<std::uint64_t> cache_limit_bytes(const MemoryOptions& options) {
    if (options.cache_limit.empty()) return infer::PackedFolder{}.limit_bytes;
    return parse_bytes(options.cache_limit, "--cache-limit");
}

Result<std::unique_ptr<LoadedModel>> load_model(infer::ModelFile file, const LoadOptions& options) {
    CHAOS_TRY(const std::uint64_t budget, budget_bytes(options.memory));
    const infer::Slice slice = options.slice.value_or(infer::whole(file.config()));
    const std::vector<infer::PackedTensor> tensors = infer::packed_tensors(file, slice);
    const std::vector<infer::Part> parts = infer::parts_of(tensors);
    CHAOS_TRY(const std::uint64_t resident, resident_bytes());
    const std::vector<infer::Batch> batches = batches_of(file.config(), slice, options);
    infer::WindowPlan plan;
    plan.resident = true;
    // Who only relays for others has no weights.
    if (!parts.empty()) {
        CHAOS_TRY(plan, infer::plan_window({.budget_bytes = budget,
                                            .program_bytes = resident + later_bytes,
                                            .cache_bytes = options.kv_bytes,
                                            .batches = batches,
                                            .parts = parts}));
    }
    auto loaded = std::make_unique<LoadedModel>(threads_or_all(options.threads));
    const std::string name = file.path().filename().string();
    if (plan.resident) {
        CHAOS_TRY(loaded->model,
                  infer::Model::load(std::move(file), slice, loaded->pool, show_progress("loading " + name)));
    } else {
        infer::PackedFolder cache;
        CHAOS_TRY(cache.path, cache_folder(options.memory));
        CHAOS_TRY(cache.limit_bytes, cache_limit_bytes(options.memory));
        const infer::Progress packing = show_progress("packing " + name + " into " + cache.path.string());
        CHAOS_TRY(const auto path, infer::packed_file(file, tensors, cache, loaded->pool, packing));
        CHAOS_TRY(auto window, infer::Window::open(path, parts, plan, show_progress("loading " + name)));
        loaded->model = infer::Model::in_window(std::move(file), slice, std::move(window));
        CHAOS_TRY(loaded->forecast, infer::forecast(*loaded->model, loaded->pool));
        show_forecast(*loaded);
    }
    if (!options.slice) loaded->engine.emplace(*loaded->model, loaded->pool);
    return loaded;
}

nlohmann::json window_json(const LoadedModel& loaded) {
    const infer::Window& window = *loaded.model->window();
    const infer::WindowPlan& plan = window.plan();
    const infer::Forecast& forecast = *loaded.forecast;
    const auto peak = memory_field("/proc/self/status", "VmHWM:");
    return {{"pinned_bytes", plan.pinned_bytes},
            {"ring_bytes", plan.slots * plan.slot_bytes},
            {"streamed_bytes_per_token", plan.streamed_bytes},
            {"batch_tokens", plan.batch.tokens},
            {"reader", window.reader_name()},
            {"disk_bytes_per_second", forecast.disk_bytes_per_s},
            {"expected_compute_seconds", forecast.compute_s},
            {"expected_seconds_per_token", forecast.token_s()},
            {"waited_seconds", window.waited_s()},
            {"peak_resident_bytes", peak ? nlohmann::json(*peak) : nlohmann::json()}};
}

}  // namespace chaos::cli
