// elastic/ is a member's training loop: it brings data, engine and state together, step by step. It decides nothing
// about files' formats, update rules or mathematics; those live in data/, state/ and compute/. Today a member trains
// alone.
//
// One step: samples from the data position -> gradient in parts -> R(s) digested -> step record -> update -> lineage.
#pragma once

#include "base/result.h"
#include "compute/engine.h"
#include "compute/plugin.h"
#include "data/dataset.h"
#include "data/order.h"
#include "run/run.h"
#include "state/checkpoint.h"
#include "state/record.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

namespace chaos::elastic {

class Trainer {
public:
    // Opens the data, builds the model and, where `init` is set, loads its weights. Nothing is written.
    static Result<Trainer> open(const run::Run& run);

    // The run with every default resolved: vocabulary, classes, threads, shape of an initial model.
    [[nodiscard]] const run::Run& run() const { return run_; }
    [[nodiscard]] const run::Identity& identity() const { return identity_; }
    // After resume(), `threads` is the number that computed the checkpoint.
    [[nodiscard]] const state::Progress& progress() const { return progress_; }
    [[nodiscard]] const data::Dataset& dataset() const { return *dataset_; }
    [[nodiscard]] const text::Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
    [[nodiscard]] compute::Engine& engine() { return *engine_; }
    [[nodiscard]] const std::string& advice() const { return advice_; }

    // Takes the next step and commits it. On an error (a loss that is not finite, say) the state is as before the step.
    [[nodiscard]] Result<state::StepRecord> step();

    // Over all held-out samples; nullopt where there are none.
    [[nodiscard]] Result<std::optional<compute::Measure>> evaluate();
    // Notes a held-out loss; true when it is the best so far.
    bool note_loss(double held_out_loss);

    [[nodiscard]] Result<void> save(const std::filesystem::path& path) const;
    [[nodiscard]] Result<void> resume(const std::filesystem::path& path);

private:
    Trainer() = default;
    // Fills batch_ with `count` samples from `position` on, across the end of a pass if need be.
    void fetch(data::Position position, std::uint64_t count);

    run::Run run_;
    run::Identity identity_;
    std::string advice_;
    std::optional<text::Tokenizer> tokenizer_;
    std::unique_ptr<data::Dataset> dataset_;
    std::unique_ptr<compute::Engine> engine_;
    state::Progress progress_;
    data::Batch batch_;
    data::Batch next_pass_;  // the part of a batch that lies in the next pass, before it is appended
};

}  // namespace chaos::elastic
