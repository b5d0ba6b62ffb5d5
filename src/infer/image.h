// Units of models on this node's disk (units.h): what it got from others, so that it starts without them the next time.
//
//   <folder>/<identity>/manifest      what the model is (manifest.h)
//                      /image         all units at their places; a sparse file, with holes for what is not here
//                      /here          one byte for each unit: 1 if it is here
//                      /name          for people
//                      /tokenizer.json, ...: its texts, for who reads files
//
// A unit counts as here once its bytes are with the operating system, after its hash was compared. That outlives the
// process, whatever kills it. When the machine dies, a unit may count whose bytes did not get to the disk; therefore,
// and because disks flip bits, check() compares hashes again before anything is computed with them, and whatever is
// wrong is missing again. (Rows of the embedding are read all the time, and were compared at the start.)
//
// All models of the folder together take no more disk than a limit. Who needs more says for what (make_room); then go,
// until there is room:
//
//   1. what this model has of units that are not wanted now
//   2. other models, the least recently opened first, unless another process has them open
//
// The folder may be deleted at any time, if no process uses it.
#pragma once

#include "base/hash.h"
#include "base/result.h"
#include "infer/manifest.h"
#include "infer/pool.h"
#include "infer/units.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace chaos::infer {

inline constexpr std::uint64_t no_limit_bytes = UINT64_MAX;

class Image final : public UnitSource {
public:
    // The manifest of a model that was here before; none where it was not.
    static Result<std::optional<Manifest>> kept_manifest(const std::filesystem::path& folder, const Digest& identity);
    // What people call it: as it was named by keep_name(), or else by its identity.
    static Result<std::string> kept_name(const std::filesystem::path& folder, const Digest& identity);
    [[nodiscard]] Result<void> keep_name(const std::string& name) const;
    // The model's image, made where there is none. One process at a time.
    static Result<std::unique_ptr<Image>> open(const std::filesystem::path& folder, Manifest manifest,
                                               std::uint64_t limit_bytes = no_limit_bytes);
    ~Image() override;
    Image(const Image&) = delete;
    Image& operator=(const Image&) = delete;

    [[nodiscard]] const Manifest& manifest() const { return manifest_; }
    [[nodiscard]] const Digest& identity() const { return identity_; }
    [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
    // Whether the limit has room for the whole model, were it alone.
    [[nodiscard]] bool may_hold_all() const { return layout_.bytes <= limit_bytes_; }

    // All of these may be called by any thread.
    [[nodiscard]] const Layout& layout() const override { return layout_; }
    [[nodiscard]] bool has(std::size_t unit) const override { return here_[unit].load(); }
    // An error, too, where the unit went meanwhile.
    [[nodiscard]] Result<void> read(std::size_t unit, std::span<std::byte> to) const override;
    void release() const override {}
    // Keeps a unit. False: these are not its bytes.
    [[nodiscard]] Result<bool> keep(std::size_t unit, std::span<const std::byte> bytes);
    // It turned out to be wrong.
    [[nodiscard]] Result<void> forget(std::size_t unit);

    // Those of `wanted` that are not here.
    [[nodiscard]] std::vector<bool> missing(const std::vector<bool>& wanted) const;
    // Whether there is room for what is missing of `wanted`, if nothing goes.
    [[nodiscard]] Result<bool> has_room(const std::vector<bool>& wanted) const;
    // Room for what is missing of `wanted`; everything else may go.
    [[nodiscard]] Result<void> make_room(const std::vector<bool>& wanted);
    // Reads what is here of `wanted`, and forgets what is wrong. How many units that were. `progress` may be empty.
    [[nodiscard]] Result<std::size_t> check(const std::vector<bool>& wanted, Pool& pool, const Progress& progress);

    // The model, for those who compute with units that are here and were checked. All texts must be here.
    [[nodiscard]] Result<ModelFile> open_model() const;

private:
    Image() = default;
    Result<void> open_files();
    Result<void> mark(std::size_t unit, bool here);
    Result<void> let_go_of_others(const std::vector<bool>& wanted);
    [[nodiscard]] Result<std::string> text_of(const PlacedText& text) const;

    std::filesystem::path store_;   // of all models
    std::filesystem::path folder_;  // of this one
    std::uint64_t limit_bytes_ = no_limit_bytes;
    Manifest manifest_;
    Layout layout_;
    Digest identity_{};
    int image_fd_ = -1;
    int here_fd_ = -1;  // locked
    std::unique_ptr<std::atomic<bool>[]> here_;
    // A unit is not kept while holes are made: it would count as here, with a hole in its place.
    std::mutex bytes_change_;
};

}  // namespace chaos::infer
