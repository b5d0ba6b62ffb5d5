// What both sides train.
#pragma once

#include "base/result.h"
#include "data/dataset.h"
#include "data/order.h"
#include "run/run.h"

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

namespace chaos::bench {

inline constexpr std::array<std::string_view, 2> model_names = {"llama", "resnet18"};

// A text file in a fresh temporary folder, removed at the end.
class TextFile {
public:
    static Result<TextFile> write();
    ~TextFile();
    TextFile(TextFile&& other) noexcept;
    TextFile& operator=(TextFile&&) = delete;

    [[nodiscard]] std::filesystem::path path() const { return folder_ / "words.txt"; }

private:
    explicit TextFile(std::filesystem::path folder) : folder_(std::move(folder)) {}
    std::filesystem::path folder_;
};

// The run of one of model_names; llama learns `text`. Every default is resolved.
[[nodiscard]] Result<run::Run> workload(std::string_view model, const std::filesystem::path& text);

// The batch that elastic::Trainer takes from this position.
void fetch_batch(const run::Run& run, const data::Dataset& dataset, data::Position position, data::Batch& batch);

}  // namespace chaos::bench
