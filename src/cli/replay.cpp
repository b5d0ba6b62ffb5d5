// chaos replay: a cluster's run once more, in this process, from the journals of its nodes.
#include "elastic/replay.h"
#include "cli/commands.h"
#include "elastic/trainer.h"
#include "node/description.h"

#include <chrono>
#include <cstdio>

namespace chaos::cli {

Result<bool> replay(const ReplayOptions& options) {
    std::vector<std::vector<elastic::journal::TimedEntry>> journals;
    for (const std::filesystem::path& dir : options.dirs) {
        CHAOS_TRY(auto entries, elastic::read_journal(dir / "journal"));
        journals.push_back(std::move(entries));
    }
    CHAOS_TRY(const elastic::CommittedChain chain, elastic::chain_of(journals));
    CHAOS_TRY(run::Run run,
              options.run_file.empty() ? node::run_in(options.dirs.front()) : run::read_run(options.run_file));
    if (chain.threads.size() > 1)
        std::printf(
            "nodes computed with different numbers of threads: results will differ in the last bits "
            "(train.threads pins the number)\n");
    if (run.train.threads == 0 && chain.threads.size() == 1)
        run.train.threads = static_cast<std::int64_t>(*chain.threads.begin());
    CHAOS_TRY(auto trainer, elastic::Trainer::open(run));
    if (!options.from.empty()) CHAOS_CHECK(trainer.resume(options.from));
    const elastic::ReplayStart start{.applied = trainer.progress().step, .lineage = trainer.progress().lineage};
    auto shown = std::chrono::steady_clock::now();
    elastic::ReplayCallbacks callbacks;
    callbacks.same = [&](const elastic::journal::Applied& step) {
        const auto now = std::chrono::steady_clock::now();
        if (now - shown < std::chrono::seconds(1)) return;
        shown = now;
        std::printf("step %llu of %zu: the same\n", static_cast<unsigned long long>(step.record.step),
                    static_cast<std::size_t>(chain.first_step) + chain.steps.size());
        std::fflush(stdout);
    };
    callbacks.skipped = [&](const elastic::journal::Applied& step) {
        trainer.arrive(step.record.step + 1, step.lineage);
    };
    CHAOS_TRY(const elastic::ReplayReport report,
              elastic::replay(chain, start, trainer, trainer.result_shape(), callbacks));
    if (report.difference) {
        std::printf("%s\n", report.difference->c_str());
        return false;
    }
    if (report.skipped > 0)
        std::printf(
            "%llu steps more have their place in the lineage; their updates were skipped, so that they changed "
            "nothing\n",
            static_cast<unsigned long long>(report.skipped));
    std::printf("%llu steps computed again: equal bits; lineage %s\n", static_cast<unsigned long long>(report.steps),
                hex(report.lineage).c_str());
    return true;
}

}  // namespace chaos::cli
