#include "report.h"
#include "soak/soak.h"

#include <CLI/CLI.hpp>

#include <unistd.h>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

using namespace chaos;
using namespace chaos::bench;

namespace {

std::filesystem::path temporary_folder(std::uint64_t seed) {
    return std::filesystem::temp_directory_path() /
           ("chaos-soak-" + std::to_string(seed) + "-" + std::to_string(::getpid()));
}

}  // namespace

int main(int argc, char** argv) {
    SoakOptions options;
    options.seed = std::random_device{}();
    CLI::App program("Torments nodes that train on this machine.");
    program.add_option("--faults", options.faults, "How many (default: 500)")->type_name("N");
    program.add_option("--nodes", options.nodes, "How many train (default: 8)")
        ->check(CLI::Range(4, 64))
        ->type_name("N");
    program.add_option("--seed", options.seed, "Decides what happens to whom")->type_name("S");
    program.add_flag("--strict", options.strict, "After a partition only a majority goes on");
    program.add_option("--folder", options.folder, "For the nodes, new or empty (default: a temporary one)")
        ->type_name("DIR");
    program.footer("The folder goes when all was well.");
    CLI11_PARSE(program, argc, argv);
    if (options.folder.empty()) options.folder = temporary_folder(options.seed);
    options.folder = std::filesystem::absolute(options.folder);
    std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
    std::filesystem::create_directories(options.folder);
    if (!std::filesystem::is_empty(options.folder)) {
        std::fprintf(stderr, "soak: %s is not empty\n", options.folder.c_str());
        return 2;
    }
    const double load = load_average();
    Soak soak(options);
    const Result<SoakReport> report = soak.run();
    if (!report) {
        std::fprintf(stderr, "soak: seed %llu: %s\nThe nodes' folders are in %s\n",
                     static_cast<unsigned long long>(options.seed), report.error().message.c_str(),
                     options.folder.c_str());
        return 1;
    }
    Table table{.head = {"fault", "times", "longest pause"}, .rows = {}};
    for (const auto& [fault, kind] : report->kinds) {
        table.rows.push_back({name_of(fault), std::to_string(kind.times),
                              kind.longest_pause_s > 0.0 ? fixed(kind.longest_pause_s * 1e3, 0) + " ms" : ""});
    }
    std::printf("\n%s\n%llu steps; %llu of them computed again, with the same bits.\n", table_text(table).c_str(),
                static_cast<unsigned long long>(report->steps), static_cast<unsigned long long>(report->replayed));
    std::printf("%u times a fault hit the longest-standing member, which proposes and writes the checkpoints.\n",
                report->eldest_hurt);
    std::printf("The longest pause was %s of what I3 says, and %s of that with what a shared machine may add.\n",
                fixed(report->longest_pause_over_i3, 2).c_str(), fixed(report->longest_pause_over_bound, 2).c_str());
    std::vector<Figure> figures = {{"longest_pause_over_bound", report->longest_pause_over_bound},
                                   {"longest_pause_over_i3", report->longest_pause_over_i3},
                                   {"eldest_hurt", static_cast<double>(report->eldest_hurt)},
                                   {"descriptors_growth", static_cast<double>(report->descriptors_growth)},
                                   {"steps", static_cast<double>(report->steps)}};
    if (report->memory_growth) figures.push_back({"memory_growth", *report->memory_growth});
    std::printf("%s\n", json_line("soak", load, figures).c_str());
    std::filesystem::remove_all(options.folder);
    return 0;
}
