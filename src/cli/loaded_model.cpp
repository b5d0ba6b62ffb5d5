#include "cli/loaded_model.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <thread>

namespace chaos::cli {

LoadedModel::LoadedModel(std::size_t threads, infer::ModelFile& file, const infer::Progress& progress)
    : pool(threads), model(infer::Model::load(std::move(file), pool, progress)) {
    if (model) engine.emplace(*model, pool);
}

std::size_t threads_or_all(std::size_t threads) {
    return threads > 0 ? threads : std::max<std::size_t>(1, std::thread::hardware_concurrency());
}

Result<std::unique_ptr<LoadedModel>> load_model(infer::ModelFile file, std::size_t threads) {
    const infer::Progress progress = progress_on_terminal("loading " + file.path().filename().string());
    auto loaded = std::make_unique<LoadedModel>(threads_or_all(threads), file, progress);
    if (!loaded->model) return Error(loaded->model.error());
    return loaded;
}

infer::Progress progress_on_terminal(const std::string& what) {
    if (::isatty(STDERR_FILENO) != 1) return {};
    return [what, shown = -1](std::uint64_t done, std::uint64_t total) mutable {
        const int percent = static_cast<int>(static_cast<double>(done) / static_cast<double>(total) * 100.0);
        if (percent == shown) return;
        shown = percent;
        // When it is done the line is gone.
        if (done == total)
            std::fputs("\r\033[K", stderr);
        else
            std::fprintf(stderr, "\r%s: %d %%\033[K", what.c_str(), percent);
    };
}

Result<std::vector<text::TokenId>> parse_ids(const std::string& text) {
    std::vector<text::TokenId> ids;
    const char* at = text.data();
    const char* end = at + text.size();
    while (true) {
        text::TokenId id = 0;
        const auto [next, error] = std::from_chars(at, end, id);
        if (error != std::errc() || (next != end && *next != ','))
            return Error{"--ids takes numbers with commas between them, e.g. 1,2,3; not \"" + text + "\""};
        ids.push_back(id);
        if (next == end) return ids;
        at = next + 1;
    }
}

Result<infer::KvType> parse_kv_type(const std::string& name) {
    if (name == "f16") return infer::KvType::f16;
    if (name == "f32") return infer::KvType::f32;
    return Error{"--kv takes f16 or f32, not \"" + name + "\""};
}

}  // namespace chaos::cli
