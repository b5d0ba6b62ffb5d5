// A checkpoint is one safetensors file that holds the whole arena and, as metadata, where training stands:
//
//   tensors    every parameter under its own name; "slot0/NAME", "slot1/NAME" the optimizer's moments; buffers;
//              their data lies in the file as it lies in the arena
//   metadata   format, step, pass, index, lineage, identity (JSON), manifest, threads, best_loss, and sha256 over
//              everything (with 64 zeros in that field's own place): one flipped bit anywhere is noticed
//
// A file is written under a temporary name, synced, then renamed: a crash or a full disk leaves what was there before.
#pragma once

#include "base/hash.h"
#include "base/result.h"
#include "run/run.h"
#include "state/arena.h"
#include "state/manifest.h"
#include "state/safetensors.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace chaos::state {

// Where training stands after `step` committed steps.
struct Progress {
    std::uint64_t step = 0;
    std::uint64_t pass = 0;
    std::uint64_t index = 0;
    Digest lineage{};
    std::optional<double> best_loss;  // smallest held-out loss so far
    std::uint64_t threads = 1;        // that computed it: the order of sums, and so the last bits, follow their number
};

// The checkpoints of one run, in a folder of their own: step-000000000100.safetensors, ..., best.safetensors.
struct CheckpointFolder {
    std::filesystem::path folder;

    [[nodiscard]] std::filesystem::path path_of(std::uint64_t step) const;
    [[nodiscard]] std::filesystem::path best() const { return folder / "best.safetensors"; }
    // Steps that have a checkpoint, ascending. A folder that cannot be listed is an error, never an empty folder.
    [[nodiscard]] Result<std::vector<std::uint64_t>> steps() const;
    // Removes all but the newest `keep`, and temporary files that other processes left when they crashed.
    [[nodiscard]] Result<void> prune(std::uint64_t keep) const;
    // Beyond `step`, training goes on from another state. What was saved of this one stays, as
    // aside-step-000000000100.safetensors, until prune() finds newer ones of that kind. Returns their steps.
    [[nodiscard]] Result<std::vector<std::uint64_t>> set_aside_after(std::uint64_t step) const;
    // Makes the checkpoint of `step` the best one as well (a second name, not a copy).
    [[nodiscard]] Result<void> mark_best(std::uint64_t step) const;
};

[[nodiscard]] Result<void> save_checkpoint(const std::filesystem::path& path, const run::Identity& identity,
                                           const Manifest& manifest, const Arena& arena, const Progress& progress);

// Opens a checkpoint of any run and checks its format and hash.
[[nodiscard]] Result<Safetensors> open_checkpoint(const std::filesystem::path& path);

// Checks everything, then fills the arena; on any error the arena is untouched. A checkpoint of another run is
// refused with the first difference in words.
[[nodiscard]] Result<Progress> load_checkpoint(const std::filesystem::path& path, const run::Identity& identity,
                                               const Manifest& manifest, Arena& arena);

}  // namespace chaos::state
