// Scale-out compared: every strategy on the same grid of models, cluster sizes, network cards and seeds, and the page
// that shows it (docs/scale-out.md). Strategies and their model are in scaleout.h.
#pragma once

#include "sim/scaleout.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::sim {

// Medians over the seeds.
struct Figures {
    std::uint64_t ratio_milli = 0;  // scale-out delay / limit, in thousandths
    Time delay = 0;
    Time members_idle = 0;
    Time joiners_idle = 0;
};

struct ComparedSetting {
    std::uint64_t card_bytes_per_s = 0;
    std::string_view model;
    Host members = 0;
    Host joiners = 0;
    Time compute = 0;
    Time limit = 0;
    std::vector<Figures> calm;    // by strategy, in the order of all_strategies
    std::vector<Figures> struck;  // the same with the most important donor dying in mid-transfer
};

struct Comparison {
    std::uint64_t first_seed = 0;
    std::uint64_t last_seed = 0;           // one past
    std::vector<ComparedSetting> joins;    // one joiner: cards x models x sizes
    std::vector<ComparedSetting> crowds;   // several at once: a smaller grid
    std::vector<ComparedSetting> rhythms;  // steps of other lengths: a smaller grid
};

[[nodiscard]] ComparedSetting compare_setting(const Draw& draw, const Model& model, std::uint64_t first_seed,
                                              std::uint64_t last_seed);
// first_seed < last_seed.
[[nodiscard]] Comparison compare(std::uint64_t first_seed, std::uint64_t last_seed);

[[nodiscard]] std::string summary_of(const Comparison& comparison);  // Markdown tables: medians over the models
[[nodiscard]] std::string page_of(const Comparison& comparison);     // the whole page

}  // namespace chaos::sim
