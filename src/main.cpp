#include "base/words.h"
#include "cli/commands.h"

#include <CLI/CLI.hpp>

#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string_view>
#include <vector>

namespace {

using chaos::Result;

// What the user did or the world did: one sentence on stderr, and this exit code.
constexpr int exit_error = 2;

using Job = std::function<Result<void>()>;

void add_train(CLI::App& program, Job& job) {
    auto options = std::make_shared<chaos::cli::TrainOptions>();
    CLI::App* command = program.add_subcommand("train", "Train what a run file describes, on this machine");
    command->add_option("run", options->run_file, "The run file (TOML); docs/run-file.md lists its keys")
        ->required()
        ->type_name("RUN.toml");
    command->add_option("--dir", options->dir, "Folder for checkpoints (default: the run file's name, here)")
        ->type_name("DIR");
    command->add_option("--max-steps", options->max_steps, "Stop after this many steps; a later start goes on")
        ->type_name("N");
    command->add_option("--sample", options->sample, "When done, continue this text with the trained model")
        ->type_name("TEXT");
    command->add_flag("--json", options->json, "Print one JSON object per event, for programs");
    command->add_flag("--plot", options->plot, "When done, draw the loss curve");
    command->footer(
        "Started again with the same run file and folder, training goes on where it stopped, bit for bit\n"
        "(with the same number of threads).\n"
        "Ctrl-C finishes the step, saves and ends; a second Ctrl-C ends at once.\n\n"
        "Examples:\n"
        "  chaos train examples/shakespeare.toml --plot\n"
        "  chaos train run.toml --dir runs/a --max-steps 100 --json\n");
    command->callback([&job, options] { job = [options] { return chaos::cli::train(*options); }; });
}

void add_export(CLI::App& program, Job& job) {
    auto options = std::make_shared<chaos::cli::ExportOptions>();
    CLI::App* command = program.add_subcommand("export", "Write a trained llama as a Hugging Face folder");
    command->add_option("run", options->run_folder, "The run's folder (--dir of train)")->required()->type_name("RUN");
    command->add_option("target", options->target, "The folder to write; must be new or empty")
        ->required()
        ->type_name("DIR");
    command->add_flag("--best", options->best, "The checkpoint with the smallest held-out loss, not the newest");
    command->footer("Example:\n  chaos export shakespeare model-dir --best\n");
    command->callback([&job, options] { job = [options] { return chaos::cli::export_model(*options); }; });
}

// OpenMP's threads spin for milliseconds when they wait. On a machine that others use too, that halves the speed of
// training or worse; spinning for some microseconds and then sleeping costs nothing. The runtime reads this when the
// process starts, so a process that is going to train starts once more. A user's own setting stands.
void restart_with_short_spins(char** argv) {
    if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
    ::setenv("GOMP_SPINCOUNT", "20000", 1);
    ::execv("/proc/self/exe", argv);  // where this fails, training is only slower
}

// CLI11 only says that a word was not expected; a mistyped command deserves better.
bool explain_unknown_command(const CLI::App& program, std::string_view word) {
    std::vector<std::string> names;
    for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
    const std::vector<std::string_view> views(names.begin(), names.end());
    for (const std::string_view name : views)
        if (name == word) return false;
    const std::string nearest = chaos::nearest_word(word, views);
    std::fprintf(stderr, "chaos: there is no command \"%.*s\"; %s\n", static_cast<int>(word.size()), word.data(),
                 nearest.empty() ? ("the commands are " + chaos::one_of(views)).c_str()
                                 : ("did you mean \"" + nearest + "\"?").c_str());
    return true;
}

int run(int argc, char** argv) {
    CLI::App program("Chaos trains models on machines that come and go, with nobody in charge.", "chaos");
    program.set_version_flag("--version", "chaos " CHAOS_VERSION);
    program.require_subcommand(1);
    program.footer(
        "Examples:\n"
        "  chaos train examples/shakespeare.toml --plot\n"
        "  chaos export shakespeare model-dir\n\n"
        "chaos COMMAND --help explains a command.");
    Job job;
    add_train(program, job);
    add_export(program, job);

    if (argc > 1 && argv[1][0] != '-' && explain_unknown_command(program, argv[1])) return exit_error;
    if (argc == 1) {
        std::fputs(program.help().c_str(), stdout);
        return 0;
    }
    if (argc > 1 && std::string_view(argv[1]) == "train") restart_with_short_spins(argv);
    try {
        program.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return program.exit(error) == 0 ? 0 : exit_error;
    }
    if (const Result<void> done = job(); !done) {
        std::fprintf(stderr, "chaos: %s\n", done.error().message.c_str());
        return exit_error;
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    // A write beyond the allowed file size is an error to report, like a full disk, not a reason to die.
    std::signal(SIGXFSZ, SIG_IGN);
    std::signal(SIGPIPE, SIG_IGN);
    try {
        return run(argc, argv);
    } catch (const std::bad_alloc&) {
        std::fputs("chaos: this machine does not have enough memory for that\n", stderr);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "chaos: %s\n", error.what());
    }
    return exit_error;
}
