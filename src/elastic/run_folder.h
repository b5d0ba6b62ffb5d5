// Everything of a run that outlives a process lies in one folder:
//
//   DIR/run.toml         the run file it was started with
//   DIR/checkpoints/     state/checkpoint.h
//   DIR/hugging_face/    llama: config.json and the tokenizer, ready for export; weights are added by `chaos export`
//   DIR/lock             held by the process that trains in it
#pragma once

#include "base/result.h"
#include "elastic/trainer.h"
#include "state/checkpoint.h"

#include <array>
#include <filesystem>

namespace chaos::elastic {

// Files that say how the tokenizer beside them is used, where they are there.
inline constexpr std::array tokenizer_companions = {"tokenizer_config.json", "special_tokens_map.json",
                                                    "chat_template.jinja", "generation_config.json"};

class RunFolder {
public:
    // Makes the folder where it is missing, and locks it: a second process is refused.
    static Result<RunFolder> open(const std::filesystem::path& path);
    ~RunFolder();
    RunFolder(RunFolder&& other) noexcept;
    RunFolder& operator=(RunFolder&& other) noexcept;

    [[nodiscard]] state::CheckpointFolder checkpoints() const { return {path_ / "checkpoints"}; }

    // Keeps the run file and, for a llama, what an export needs besides weights.
    [[nodiscard]] Result<void> describe(const std::filesystem::path& run_file, const Trainer& trainer) const;

private:
    RunFolder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
    std::filesystem::path path_;
    int lock_ = -1;
};

// Which checkpoint of a run to export.
enum class Choice { newest, best };

// Writes a Hugging Face folder from a run's folder. `target` must not exist or be empty.
[[nodiscard]] Result<void> export_run(const std::filesystem::path& run_folder, const std::filesystem::path& target,
                                      Choice choice);

}  // namespace chaos::elastic
