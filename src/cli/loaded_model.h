// A model for a command: opened, read into memory while it is shown how far (progress.h), ready to compute.
#pragma once

#include "base/result.h"
#include "cli/commands.h"
#include "infer/engine.h"
#include "infer/forecast.h"
#include "infer/model.h"
#include "infer/pool.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace chaos::cli {

struct LoadedModel {
    explicit LoadedModel(std::size_t threads) : pool(threads) {}

    infer::Pool pool;
    std::optional<infer::Model> model;
    std::optional<infer::Engine> engine;
    std::optional<infer::Forecast> forecast;  // where the model has a window
};

struct LoadOptions {
    std::size_t threads = 0;  // 0: one per core that it may use
    MemoryOptions memory;
    // What the command needs beside weights.
    std::uint64_t kv_bytes = 0;
    std::size_t min_tokens = 1;  // of one forward()
    std::size_t logits = 1;      // of one forward(), at most
    // None: the whole model. Then there is no engine: whoever computes with others makes one.
    std::optional<infer::Slice> slice = {};
};
// Weights that the memory has no room for are streamed (infer/window.h); then standard error says what that will cost.
[[nodiscard]] Result<std::unique_ptr<LoadedModel>> load_model(infer::ModelFile file, const LoadOptions& options);

[[nodiscard]] std::size_t threads_or_all(std::size_t threads);

// What this process has in memory now.
[[nodiscard]] Result<std::uint64_t> resident_bytes();
// What it may have: as it was told, or most of what is free, on the machine and in its control group.
[[nodiscard]] Result<std::uint64_t> budget_bytes(const MemoryOptions& options);
// Where things are kept that can be made again.
[[nodiscard]] Result<std::filesystem::path> cache_folder(const MemoryOptions& options);
[[nodiscard]] Result<std::uint64_t> cache_limit_bytes(const MemoryOptions& options);

// For --json: the plan, what was expected of it and what it came to.
[[nodiscard]] nlohmann::json window_json(const LoadedModel& loaded);

}  // namespace chaos::cli
