#include "churn.h"

#include "base/file.h"
#include "elastic/replay.h"
#include "nodes/nodes.h"
#include "soak/soak.h"
#include "temporary_folder.h"
#include "testbed/process.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t compared_steps = 100;
constexpr unsigned nodes = 5;
constexpr double slack_s = 4.0;  // steps are long, and processes that load LibTorch take the cores

struct Subject {
    std::string name;
    std::string run;
};

// Steps of about half a second on two cores: long enough for about ten faults in a hundred of them.
std::vector<Subject> subjects() {
    const std::string train = "\neval_every = 0\ncheckpoint_every = 10\nsteps = 100000\nthreads = 1\n";
    return {{.name = "llama",
             .run = "[model]\nkind = \"llama\"\nwidth = 64\nlayers = 2\nheads = 4\ntied_head = true\n"
                    "[data]\nfiles = \"texts.txt\"\ncontext = 64\n"
                    "[optimizer]\nlearning_rate = 3e-3\nclip_norm = 1.0\n[train]\nbatch = 400" +
                    train},
            {.name = "mlp",
             .run = "[model]\nkind = \"mlp\"\nhidden = [512, 512]\n"
                    "[data]\nkind = \"synthetic\"\nshape = [256]\nsamples = 20000\n"
                    "[optimizer]\nlearning_rate = 1e-3\n[train]\nbatch = 5000" +
                    train}};
}

// Words that can be learnt: numbers and their squares.
std::string text() {
    std::string all;
    for (std::uint64_t i = 0; all.size() < 200'000; ++i)
        all += std::to_string(i) + " times itself is " + std::to_string(i * i) + ".\n";
    return all;
}

Result<std::vector<double>> losses_alone(const fs::path& folder) {
    CHAOS_TRY(const std::string told,
              testbed::run_program({chaos_program(), "train", folder / "run.toml", "--dir", folder / "alone",
                                    "--max-steps", std::to_string(compared_steps), "--json"}));
    std::vector<double> losses;
    std::istringstream lines(told);
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
        if (event.is_object() && event.value("event", "") == "step") losses.push_back(event.at("loss"));
    }
    return losses;
}

// Of the steps that led to the state at the end: what was undone does not count.
Result<std::vector<double>> losses_together(const fs::path& folder) {
    std::vector<std::vector<elastic::journal::TimedEntry>> journals;
    for (unsigned i = 0; i < nodes; ++i) {
        CHAOS_TRY(auto journal, elastic::read_journal(folder / ("n" + std::to_string(i)) / "journal"));
        journals.push_back(std::move(journal));
    }
    CHAOS_TRY(const elastic::CommittedChain chain, elastic::chain_of(journals));
    std::vector<double> losses;
    for (const elastic::journal::Applied& step : chain.steps) losses.push_back(step.record.loss);
    return losses;
}

}  // namespace

Result<Table> measure_churn(bool quick, std::vector<Figure>& figures) {
    Table table{.head = {"churn", "faults", "views", "steps", "same bits", "loss gap"}, .rows = {}};
    double worst = 0.0;
    for (const Subject& subject : subjects()) {
        if (quick && subject.name != "mlp") continue;
        const test::TemporaryFolder folder;
        const fs::path data = folder.path() / "data";
        fs::create_directories(data);
        CHAOS_CHECK(write_file_atomically(data / "run.toml", subject.run));
        CHAOS_CHECK(write_file_atomically(data / "texts.txt", text()));
        CHAOS_TRY(const std::vector<double> alone, losses_alone(data));
        SoakOptions options{.faults = 1000, .nodes = nodes, .seed = 1, .folder = folder.path() / "nodes"};
        options.run = subject.run;
        options.data = data;
        options.until_step = compared_steps;
        options.all_may_fall = false;
        options.slack_s = slack_s;
        fs::create_directories(options.folder);
        fs::copy(data / "texts.txt", options.folder / "texts.txt");
        Soak soak(options);
        CHAOS_TRY(const SoakReport report, soak.run());
        CHAOS_TRY(const std::vector<double> together, losses_together(options.folder));
        if (alone.size() < compared_steps || together.size() < compared_steps)
            return Error{subject.name + ": a run ended before step " + std::to_string(compared_steps)};
        double gap = 0.0;
        for (std::size_t i = 0; i < compared_steps; ++i)
            gap = std::max(gap, std::abs(together[i] - alone[i]) / std::abs(alone[i]));
        worst = std::max(worst, gap);
        std::ostringstream gap_text;
        gap_text.precision(1);
        gap_text << std::scientific << gap;
        table.rows.push_back({subject.name, std::to_string(report.faults), std::to_string(report.views),
                              std::to_string(report.steps), std::to_string(report.replayed), gap_text.str()});
    }
    figures.push_back({"churn_loss_gap", worst});
    return table;
}

}  // namespace chaos::bench
