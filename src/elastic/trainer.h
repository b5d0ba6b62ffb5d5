// elastic/ is a member's training loop: it brings data, engine and state together, step by step, alone or with others.
// It decides nothing about files' formats, update rules or mathematics; those live in data/, state/ and compute/.
//
// Read first: trainer.h (this file: what is trained), learner.h and steps.h (steps of a cluster), donor.h and joiner.h
// (how a newcomer gets the state), participant.h (all of a member's training side).
//
// One step: samples from the data position -> gradient in parts -> R(s) digested -> step record -> update -> lineage.
#pragma once

#include "base/result.h"
#include "compute/engine.h"
#include "compute/plugin.h"
#include "data/dataset.h"
#include "data/order.h"
#include "elastic/gradient_plan.h"
#include "elastic/learner.h"
#include "elastic/tally.h"
#include "run/run.h"
#include "state/checkpoint.h"
#include "state/record.h"
#include "state/shards.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

namespace chaos::elastic {

// What came of a step that was done with others.
struct Outcome {
    state::StepRecord record;
    bool incomplete = false;                        // not all samples of the batch are in it, and so it was skipped
    bool skipped = false;                           // the update: what was contributed is of no use
    std::optional<NodeId> culprit;                  // ... by this member
    std::vector<NodeId> offenders = {};             // ... and it is clear that the fault is theirs
    std::optional<compute::Measure> held_out = {};  // of the state before this step, where it was evaluated
    // Where members told each other what state they computed with: the root of this node's, and who has another than
    // most.
    std::optional<Digest> root = {};
    std::vector<NodeId> astray = {};
};

class Trainer final : public Learner {
public:
    using MakeEngine = std::function<Result<std::unique_ptr<compute::Engine>>(const compute::EngineOptions&)>;

    // Opens the data, builds the model and, where `init` is set, loads its weights (unless they come from others).
    // Nothing is written. Without `make_engine` the compute plugin is loaded.
    static Result<Trainer> open(const run::Run& run, const MakeEngine& make_engine = {});

    // The run with every default resolved: vocabulary, classes, threads, shape of an initial model.
    [[nodiscard]] const run::Run& run() const { return run_; }
    [[nodiscard]] const run::Identity& identity() const { return identity_; }
    // With all that members of one cluster need alike.
    [[nodiscard]] run::Identity agreed() const;
    // After resume(), `threads` is the number that computed the checkpoint.
    [[nodiscard]] const state::Progress& progress() const { return progress_; }
    [[nodiscard]] const data::Dataset& dataset() const { return *dataset_; }
    [[nodiscard]] const text::Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
    [[nodiscard]] compute::Engine& engine() { return *engine_; }
    [[nodiscard]] const state::Shards& shards() const { return *shards_; }
    [[nodiscard]] const std::string& advice() const { return advice_; }
    // What to know of this model where a batch is computed in parts, by this process or by several nodes; empty:
    // nothing.
    [[nodiscard]] std::string caution() const;
    // What is in memory is no state of the run: the weights that it begins with are not here. A joiner's trainer, until
    // the state has come from others.
    [[nodiscard]] bool blank() const { return blank_; }

    // Takes the next step and commits it. On an error (a loss that is not finite, say) the state is as before the step.
    [[nodiscard]] Result<state::StepRecord> step();

    // ---- with others: R(s) is the gradient, the buffers and the tally

    [[nodiscard]] ResultShape result_shape() const;
    // After the run's last step there is one more in which nothing is computed: that it completes tells everybody that
    // all have applied the last one.
    [[nodiscard]] Result<std::chrono::nanoseconds> compute(const Task& task, std::span<float> into) override;
    [[nodiscard]] cluster::Name apply(std::uint64_t step, const cluster::View& view, std::span<const float> result,
                                      const state::ResultDigest& digest) override;
    // That last step, and what would come after it.
    [[nodiscard]] bool is_over(std::uint64_t step) const {
        return step >= static_cast<std::uint64_t>(run_.train.steps);
    }
    // Of the step that was applied last.
    [[nodiscard]] const Outcome& outcome() const { return outcome_; }
    // The state was brought there by other means: shards that were pulled and rolled. Of a run that is over it is what
    // its last step made.
    void arrive(std::uint64_t step, const Digest& lineage);
    // As the run begins.
    [[nodiscard]] Result<void> begin_anew();

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
    // Where in the data a step begins.
    [[nodiscard]] data::Position position_of(std::uint64_t step) const;
    // Adds the gradient of these samples of a step's batch to `into`, and tells `ready` how far it is; their mean
    // loss.
    [[nodiscard]] Result<double> add_gradient(std::uint64_t step, SampleRange samples, std::span<float> into,
                                              const std::function<void(std::size_t)>& ready);
    [[nodiscard]] Result<compute::Measure> evaluate(std::uint64_t begin, std::uint64_t end);
    [[nodiscard]] bool evaluation_due(std::uint64_t step) const;
    // This member's part of the held-out samples, where an evaluation is due.
    [[nodiscard]] Result<std::optional<compute::Measure>> evaluate_part(const Task& task);
    // Besides every so many steps: in the first one that a newcomer takes part in, when it contributes nothing yet.
    [[nodiscard]] bool verification_due(std::uint64_t step, const cluster::View& view) const;
    [[nodiscard]] const Digest& root();
    // Its record becomes the newest of the lineage.
    void commit(const state::StepRecord& record);
    [[nodiscard]] Result<void> load_initial_weights();

    struct Evaluated {
        Digest lineage{};
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
        compute::Measure measure;
    };

    struct Hashed {
        Digest lineage{};
        Digest root{};
    };

    run::Run run_;
    run::Identity identity_;
    std::string advice_;
    bool blank_ = false;
    std::optional<text::Tokenizer> tokenizer_;
    std::unique_ptr<data::Dataset> dataset_;
    MakeEngine make_engine_;
    compute::EngineOptions engine_options_;
    std::unique_ptr<compute::Engine> engine_;
    std::optional<state::Shards> shards_;
    state::Progress progress_;
    Outcome outcome_;
    Contribution given_;  // by this member, so far, to the step that it computes
    std::optional<Evaluated> evaluated_;
    std::optional<Hashed> hashed_;
    data::Batch batch_;
    data::Batch next_pass_;  // the part of a batch that lies in the next pass, before it is appended
};

}  // namespace chaos::elastic
