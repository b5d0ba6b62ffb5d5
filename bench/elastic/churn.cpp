#include "churn.h"

#include "base/file.h"
#include "nodes/losses.h"
#include "soak/soak.h"
#include "temporary_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t compared_steps = 100;
constexpr unsigned nodes = 5;
constexpr double scheduling_s = 3.0;  // processes that load LibTorch take the cores for so long

struct Subject {
    std::string name;
    std::string run;
};

// Steps of about half a second on two cores: long enough for about ten faults in a hundred of them.
std::vector<Subject> subjects() {
    const std::string train = "\neval_every = 0\ncheckpoint_every = 10\nsteps = 100000\nthreads = 1\n";
    return {
        {.name = "llama",
         .run =
             "[model]\nkind = \"llama\"\nwidth = 64\nlayers = 2\nheads = 4\ntied_head = true\n"
             "[data]\nfiles = \"texts.txt\"\ncontext = 64\n"
             "[optimizer]\nlearning_rate = 1e-3\nclip_norm = 1.0\n[schedule]\nwarmup_steps = 20\n[train]\nbatch = 400" +
             train},
        {.name = "mlp",
         .run = "[model]\nkind = \"mlp\"\nhidden = [512, 512]\n"
                "[data]\nkind = \"synthetic\"\nshape = [256]\nsamples = 20000\n"
                "[optimizer]\nlearning_rate = 1e-3\n[schedule]\nwarmup_steps = 20\n[train]\nbatch = 5000" +
                train}};
}

// Prose: what this project says of itself.
Result<std::string> text() {
    std::set<fs::path> pages;
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(CHAOS_SOURCE) / "docs"))
        if (entry.path().extension() == ".md") pages.insert(entry.path());
    std::string all;
    for (const fs::path& page : pages) {
        CHAOS_TRY(const std::string content, read_file(page));
        all += content;
    }
    return all;
}

// In one process, each step's batch in so many parts: the same mathematics, but for rounding.
Result<std::vector<double>> losses_in_parts(const fs::path& folder, const std::string& run, unsigned parts) {
    const std::string name = "parts-" + std::to_string(parts);
    const fs::path file = folder / (name + ".toml");
    CHAOS_CHECK(write_file_atomically(file, run + "accumulate = " + std::to_string(parts) + "\n"));
    return losses_alone(file, folder / name, compared_steps);
}

Result<std::vector<double>> losses_of_nodes(const fs::path& folder) {
    std::vector<fs::path> dirs;
    for (unsigned i = 0; i < nodes; ++i) dirs.push_back(folder / ("n" + std::to_string(i)));
    CHAOS_TRY(std::vector<double> losses, losses_together(dirs));
    if (losses.size() < compared_steps) return Error{"a run ended before step " + std::to_string(compared_steps)};
    losses.resize(compared_steps);
    return losses;
}

std::string in_powers(double value) {
    std::ostringstream text;
    text.precision(1);
    text << std::scientific << value;
    return text.str();
}

}  // namespace

Result<Table> measure_churn(bool quick, std::vector<Figure>& figures) {
    Table table{.head = {"churn", "faults", "views", "steps", "same bits", "loss gap", "by rounding alone"},
                .rows = {}};
    double worst = 0.0;
    double worst_rounding = 0.0;
    CHAOS_TRY(const std::string prose, text());
    for (const Subject& subject : subjects()) {
        if (quick && subject.name != "mlp") continue;
        const test::TemporaryFolder folder;
        const fs::path data = folder.path() / "data";
        fs::create_directories(data);
        CHAOS_CHECK(write_file_atomically(data / "run.toml", subject.run));
        CHAOS_CHECK(write_file_atomically(data / "texts.txt", prose));
        CHAOS_TRY(const std::vector<double> alone, losses_in_parts(data, subject.run, 1));
        CHAOS_TRY(const std::vector<double> in_parts, losses_in_parts(data, subject.run, nodes));
        SoakOptions options{.faults = 1000, .nodes = nodes, .seed = 1, .folder = folder.path() / "nodes"};
        options.run = subject.run;
        options.data = data;
        options.until_step = compared_steps;
        options.all_may_fall = false;
        options.scheduling_s = scheduling_s;
        fs::create_directories(options.folder);
        fs::copy(data / "texts.txt", options.folder / "texts.txt");
        Soak soak(options);
        CHAOS_TRY(const SoakReport report, soak.run());
        CHAOS_TRY(const std::vector<double> together, losses_of_nodes(options.folder));
        const double gap = largest_gap(alone, together);
        const double rounding = largest_gap(alone, in_parts);
        worst = std::max(worst, gap);
        worst_rounding = std::max(worst_rounding, rounding);
        table.rows.push_back({subject.name, std::to_string(report.faults), std::to_string(report.views),
                              std::to_string(report.steps), std::to_string(report.replayed), in_powers(gap),
                              in_powers(rounding)});
    }
    figures.push_back({"churn_loss_gap", worst});
    figures.push_back({"rounding_loss_gap", worst_rounding});
    return table;
}

}  // namespace chaos::bench
