// What is trained, as a cluster tells it to a newcomer: the run file, the small files that it names, and which data it
// is trained on, by their hashes. Everything else of the run, the newcomer gets as state; its data it has to have.
//
//   member:    RUN.toml, trainer ── describe ──► Description ── encode ──► elastic::Describer ──► ...
//   newcomer:  ... ──► fetch.h ── decode ──► Description ── install ──► DIR/run.toml, DIR/files, run::Run
//
// What was installed stays, so that the node can come back when nobody is there to tell it again:
//
//   DIR/description   as it was told
//   DIR/places        where each of its data files was found, one path per line
//
// Of a node that has a run file of its own:
//
//   DIR/run_folder    where that lay: paths in its copy, DIR/run.toml, are relative to that folder
//
// It comes from others: nothing that a description says leads to a file being written outside DIR.
#pragma once

#include "base/hash.h"
#include "base/result.h"
#include "cluster/id.h"
#include "elastic/trainer.h"
#include "run/run.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::node {

// A file that samples come from.
struct DataFile {
    std::string key;   // of the run file: data.files or data.labels
    std::string path;  // as the run file names it, relative to its folder or absolute
    std::uint64_t bytes = 0;
    Digest hash{};  // SHA-256
    bool operator==(const DataFile&) const = default;
};

struct Description {
    std::string run_text;
    // "KEY/NAME" -> content: what keys of the run file name besides data, e.g. "model.path/net.pt". Of model.init only
    // what is no weight: those are part of the state.
    std::map<std::string, std::string> files;
    run::Identity identity;
    std::vector<DataFile> data;

    [[nodiscard]] cluster::Name run() const { return run::hash(identity); }
    bool operator==(const Description&) const = default;
};

// Of a run that `trainer` was opened with. Reads all data once more, for their hashes. An error: others cannot be told
// all that they need, because a file cannot be read or is too large.
[[nodiscard]] Result<Description> describe(const std::filesystem::path& run_file, const elastic::Trainer& trainer);

// At most elastic::max_description_bytes; more is an error.
[[nodiscard]] Result<std::string> encode(const Description& description);
[[nodiscard]] Result<Description> decode_description(std::string_view bytes);

// Writes DIR/run.toml and DIR/files/KEY/NAME, finds the data, and gives the run with all its paths resolved, ready for
// Trainer::open. Data are looked for below `dir` and below `data_folder` (empty: none) where the run file says, below
// `data_folder` by name, where they were found before, below the current folder where the run file says, and at
// absolute paths of the run file; they must have the right size and content. An error lists all that are lacking.
// Nothing is written then.
[[nodiscard]] Result<run::Run> install(const Description& description, const std::filesystem::path& dir,
                                       const std::filesystem::path& data_folder);

// What was installed in `dir`; nullopt: nothing was.
[[nodiscard]] Result<std::optional<Description>> installed(const std::filesystem::path& dir);

// What members of a cluster have alike, as a node that was installed in `dir` has it. No data are looked for.
[[nodiscard]] Result<run::Identity> settings_of(const Description& description, const std::filesystem::path& dir);

// For a node that has a run file of its own.
[[nodiscard]] Result<void> keep_place(const std::filesystem::path& run_file, const std::filesystem::path& dir);

// The run that a node of this folder trains, with all its paths resolved, ready for Trainer::open. Nothing is written.
[[nodiscard]] Result<run::Run> run_in(const std::filesystem::path& dir);

// Whether both train the same; else what differs first, in words.
[[nodiscard]] Result<void> check_same_run(const run::Identity& ours, const run::Identity& clusters);

}  // namespace chaos::node
