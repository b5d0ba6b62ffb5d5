// ./dev bench serve [--quick] [SECTION...]: what nodes that compute one model together owe their users, measured on
// real processes of the program, most of them asked through the API. The sections, all of them where none is named:
//
//   same       every logit is the same bits for 1, 2, 3 and 5 nodes, divided evenly and at random, exchanging directly,
//              by a star and by a chain, with all weights in memory, with a quarter of them, and some like this and
//              some like that. In one process, over real links, because processes show tokens and not logits.
//                                                                             same_logits, of how many combinations
//   pair       two processes with a thread each against one with two threads: tokens per second of one stream.
//                                                                             two_process_ratio >= 0.8
//   delay      two hosts of the testbed, 1 ms from each other: a token against 2 x layers x delay + computing half of
//              the model, and a prompt of 32 tokens against a token.          delay_decode_ratio, delay_prefill_ratio
//   memory     what a process has at most beside its weights, which it reads from its own file or gets from another
//              node; and four that may each have a quarter of the weights' bytes for everything.
//                                                                             memory_beside_weights_mb <= 60,
//                                                                             memory_four_of_budget <= 1.0
//   healing    members are killed, frozen, come and leave while a text is written: it goes on as if nothing had been,
//              and how long the client waits.                                 healed_texts, ..._next_token_ms_p50, p99
//   forecast   what the plan said a token would take against what it took, over ten settings of the testbed.
//                                                                             forecast_error <= 0.15
//
// delay and forecast need root. Two cores are enough for everything but say little about more than two nodes: where
// several compute on one core, what is measured is that they share it, so bars are on two nodes or on correctness.
#include "report.h"
#include "sections.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace chaos::bench {
namespace {

struct Section {
    const char* name;
    Result<void> (*measure)(const Wish& wish, Findings& findings);
};
constexpr std::array known = {Section{"same", measure_same},       Section{"pair", measure_pair},
                              Section{"delay", measure_delay},     Section{"memory", measure_memory},
                              Section{"healing", measure_healing}, Section{"forecast", measure_forecast}};

int measure(int count, char** values) {
    std::vector<std::string> names;
    for (const Section& section : known) names.emplace_back(section.name);
    CLI::App program("What nodes that compute one model together owe their users.", "bench_serve");
    std::vector<std::string> wanted;
    Wish wish{.models = std::filesystem::path(CHAOS_SHARED) / "models"};
    program.add_option("sections", wanted, "Which of them (default: all)")->check(CLI::IsMember(names));
    program.add_flag("--quick", wish.quick, "Fewer settings, fewer times");
    program.add_option("--models", wish.models, "same: the folder of its models");
    CLI11_PARSE(program, count, values);
    const double load = load_average();
    std::vector<Figure> figures;
    bool all_done = true;
    for (const Section& section : known) {
        if (!wanted.empty() && std::ranges::find(wanted, section.name) == wanted.end()) continue;
        std::fprintf(stderr, "%s:\n", section.name);
        Findings findings;
        const Result<void> done = section.measure(wish, findings);
        if (!done) std::fprintf(stderr, "bench serve: %s: %s\n", section.name, done.error().message.c_str());
        all_done = all_done && done.ok();
        // Those after it may still tell something, and so may what it found before it failed.
        std::printf("%s\n", table_text(findings.table).c_str());
        std::fflush(stdout);
        figures.insert(figures.end(), findings.figures.begin(), findings.figures.end());
    }
    std::printf("%s\n", json_line("serve", load, figures).c_str());
    return all_done ? 0 : 1;
}

}  // namespace
}  // namespace chaos::bench

int main(int count, char** values) {
    try {
        return chaos::bench::measure(count, values);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench serve: %s\n", error.what());
        return 1;
    }
}
