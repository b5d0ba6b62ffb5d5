#include "cli/commands.h"
#include "cli/display.h"
#include "cli/plot.h"
#include "cli/sample_text.h"

#include "elastic/run_folder.h"
#include "elastic/trainer.h"

#include <unistd.h>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <vector>

namespace chaos::cli {
namespace {

std::atomic<bool> interrupted = false;

// The first signal asks for an orderly end; a person who repeats it means it.
void on_signal(int) {
    if (interrupted.exchange(true)) ::_exit(130);
}

void listen_for_signals() {
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;  // a save that is under way must not fail
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
}

// One process' stretch of a run: from its newest checkpoint to its end, or to where it is stopped.
class Session {
public:
    Session(elastic::Trainer& trainer, elastic::RunFolder& folder, Display& display)
        : trainer_(trainer), checkpoints_(folder.checkpoints()), display_(display) {}

    Result<void> resume() {
        CHAOS_TRY(const std::vector<std::uint64_t> steps, checkpoints_.steps());
        if (steps.empty()) return {};
        Result<void> resumed = trainer_.resume(checkpoints_.path_of(steps.back()));
        if (resumed || steps.size() == 1) return resumed;
        return Error{resumed.error().message + " (an older one, " +
                     checkpoints_.path_of(steps[steps.size() - 2]).string() +
                     ", is there: remove the newer to go on from it)"};
    }

    // Steps until the run's end, `max_steps` or a signal. Returns why it ended.
    Result<std::string> advance(std::uint64_t max_steps) {
        const run::Train& train = trainer_.run().train;
        const auto last = static_cast<std::uint64_t>(train.steps);
        const std::uint64_t begin = trainer_.progress().step;
        if (begin > 0) saved_step_ = begin;
        while (trainer_.progress().step < last) {
            if (interrupted) return std::string("interrupted");
            if (max_steps > 0 && trainer_.progress().step - begin == max_steps)
                return std::string("reached --max-steps");
            auto record = trainer_.step();
            if (!record) return Error{record.error().message + kept_checkpoint()};
            losses_.push_back(record->loss);
            display_.step(*record);
            const std::uint64_t done = trainer_.progress().step;
            if (due(done, train.eval_every)) CHAOS_CHECK(evaluate());
            if (due(done, train.checkpoint_every)) CHAOS_CHECK(save());
        }
        return std::string("finished");
    }

    // Held-out loss and checkpoint of the last step, unless they are there already.
    Result<void> conclude(bool evaluate_too) {
        const bool worked = !losses_.empty();
        if (evaluate_too && worked && evaluated_step_ != trainer_.progress().step) CHAOS_CHECK(evaluate());
        return save();
    }

    [[nodiscard]] const std::vector<double>& losses() const { return losses_; }

private:
    static bool due(std::uint64_t done, std::int64_t every) {
        return every > 0 && done % static_cast<std::uint64_t>(every) == 0;
    }

    Result<void> evaluate() {
        CHAOS_TRY(const auto measure, trainer_.evaluate());
        const std::uint64_t step = trainer_.progress().step;
        evaluated_step_ = step;
        if (!measure) return {};
        const bool best = trainer_.note_loss(measure->loss);
        display_.evaluated(step, *measure, best);
        if (!best) return {};
        CHAOS_CHECK(write());  // even if this step is saved already: that file does not know yet that it is the best
        return checkpoints_.mark_best(step);
    }

    Result<void> save() {
        if (saved_step_ == trainer_.progress().step) return {};
        return write();
    }

    Result<void> write() {
        const std::uint64_t step = trainer_.progress().step;
        const std::filesystem::path path = checkpoints_.path_of(step);
        if (const Result<void> saved = trainer_.save(path); !saved)
            return Error{saved.error().message + kept_checkpoint()};
        saved_step_ = step;
        CHAOS_CHECK(checkpoints_.prune(static_cast<std::uint64_t>(trainer_.run().train.keep_checkpoints)));
        display_.saved(step, path);
        return {};
    }

    [[nodiscard]] std::string kept_checkpoint() const {
        const auto steps = checkpoints_.steps();
        if (!steps) return " (" + steps.error().message + ")";
        if (steps->empty()) return " (there is no checkpoint yet)";
        return " (the last good checkpoint is " + checkpoints_.path_of(steps->back()).string() + ")";
    }

    elastic::Trainer& trainer_;
    state::CheckpointFolder checkpoints_;
    Display& display_;
    std::optional<std::uint64_t> saved_step_;
    std::optional<std::uint64_t> evaluated_step_;
    std::vector<double> losses_;
};

void show_notes(const elastic::Trainer& trainer, Display& display) {
    if (!trainer.advice().empty()) display.note(trainer.advice());
    const run::Run& run = trainer.run();
    if (trainer.progress().threads != static_cast<std::uint64_t>(run.train.threads))
        display.note("the checkpoint was computed with " + std::to_string(trainer.progress().threads) +
                     " threads, this process uses " + std::to_string(run.train.threads) +
                     ": results will differ in the last bits (train.threads pins the number)");
    if (run.train.accumulate > 1 && !trainer.caution().empty()) display.note(trainer.caution());
}

}  // namespace

Result<void> train(const TrainOptions& options) {
    listen_for_signals();
    CHAOS_TRY(const run::Run run, run::read_run(options.run_file));
    if (options.sample && (run.model.kind != "llama" || run.data.kind != "text"))
        return Error{"--sample lets a llama trained on text continue it; this run has model.kind = \"" +
                     run.model.kind + "\" and data.kind = \"" + run.data.kind + "\""};
    const std::filesystem::path dir = options.dir.empty() ? options.run_file.stem() : options.dir;
    if (std::filesystem::exists(dir) && std::filesystem::equivalent(dir, options.run_file))
        return Error{"--dir is needed: the default folder would be the run file itself"};
    CHAOS_TRY(auto trainer, elastic::Trainer::open(run));
    CHAOS_TRY(auto folder, elastic::RunFolder::open(dir));

    const std::unique_ptr<Display> display = make_display(options.json, static_cast<std::uint64_t>(run.train.steps));
    Session session(trainer, folder, *display);
    CHAOS_CHECK(session.resume());
    CHAOS_CHECK(folder.describe(options.run_file, trainer));
    display->start(trainer, dir);
    show_notes(trainer, *display);
    const std::uint64_t first_step = trainer.progress().step + 1;
    CHAOS_TRY(const std::string why, session.advance(options.max_steps));
    CHAOS_CHECK(session.conclude(why == "finished"));
    display->end(trainer, why);

    if (options.plot && !options.json) std::printf("\nloss by step\n%s", plot(session.losses(), first_step).c_str());
    if (options.sample && !interrupted) {
        constexpr std::size_t sample_tokens = 300;
        CHAOS_TRY(const std::string text, sample_text(trainer, *options.sample, sample_tokens, run.train.seed));
        display->sampled(text);
    }
    return {};
}

}  // namespace chaos::cli
