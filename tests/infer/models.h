// Models of ../shared/models with everything to run them.
#pragma once

#include "base/file.h"
#include "infer/engine.h"
#include "shared.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace chaos::infer::test {

using Ids = std::vector<TokenId>;

inline std::filesystem::path folder(const std::string& name) {
    return chaos::test::shared("models") / name;
}

inline std::filesystem::path gguf(const std::string& name) {
    return folder("gguf") / (name + ".gguf");
}

// What the reference implementation makes of prompts.
inline nlohmann::json expected(const std::string& model) {
    return nlohmann::json::parse(read_file(folder(model) / "expected.json").value());
}

struct Loaded {
    explicit Loaded(const std::filesystem::path& path, std::size_t threads = 2) : pool(threads) {
        auto file = ModelFile::open(path);
        if (!file) throw std::runtime_error(file.error().message);
        auto read = Model::load(std::move(*file), pool, {});
        if (!read) throw std::runtime_error(read.error().message);
        model.emplace(std::move(*read));
        engine.emplace(*model, pool);
    }
    Pool pool;
    std::optional<Model> model;
    std::optional<Engine> engine;
};

}  // namespace chaos::infer::test
