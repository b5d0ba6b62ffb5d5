// A model for a command: opened, read into memory while a terminal shows how far, ready to compute.
#pragma once

#include "base/result.h"
#include "infer/engine.h"
#include "infer/model.h"
#include "infer/pool.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chaos::cli {

struct LoadedModel {
    LoadedModel(std::size_t threads, infer::ModelFile& file, const infer::Progress& progress);

    infer::Pool pool;
    Result<infer::Model> model;
    std::optional<infer::Engine> engine;
};

// `threads` 0: one per core.
[[nodiscard]] Result<std::unique_ptr<LoadedModel>> load_model(infer::ModelFile file, std::size_t threads);

[[nodiscard]] std::size_t threads_or_all(std::size_t threads);

// Shows on a terminal, in place, how much of something is done; elsewhere nothing.
[[nodiscard]] infer::Progress progress_on_terminal(const std::string& what);

// "1,2,3"
[[nodiscard]] Result<std::vector<text::TokenId>> parse_ids(const std::string& text);

// "f16" or "f32"
[[nodiscard]] Result<infer::KvType> parse_kv_type(const std::string& name);

}  // namespace chaos::cli
