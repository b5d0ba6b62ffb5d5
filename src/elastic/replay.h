// A run once more, in one process, from the journals of nodes that trained it: every committed step is computed again
// under the view that it was committed under, and must give the same bits. A sample that was dropped or taken twice, a
// contribution that was summed twice, a state that went astray: each shows as a difference.
//
// A step: each active member's contribution is computed into zeros, its share range by range in the order in which it
// is listed; contributions are added in the order of the view's sync plan; the result is applied. Gradients travelled
// as fp32. Of a step whose update was skipped, what was sick cannot be computed again; but it changed nothing, so that
// only its place in the lineage is checked.
#pragma once

#include "elastic/gradient_plan.h"
#include "elastic/journal.h"
#include "elastic/learner.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace chaos::elastic {

// The steps that led to one state, oldest first.
struct CommittedChain {
    std::uint64_t first_step = 0;
    cluster::Name lineage{};  // before it
    std::vector<journal::Applied> steps;
    std::map<cluster::Name, ViewPtr> views;
    std::set<std::uint64_t> threads;  // with which the journals' nodes computed: bits depend on it
};

// To the state that the first journal ends with, as far back as any of them knows. Steps that were undone are not in
// it. Journals of other nodes of the run close gaps: where a node joined, or was excluded for a while.
[[nodiscard]] Result<CommittedChain> chain_of(std::span<const std::vector<journal::TimedEntry>> journals);

// Where the learner stands: at the beginning of the run, or where a checkpoint was loaded.
struct ReplayStart {
    std::uint64_t applied = 0;
    cluster::Name lineage{};
};

struct ReplayReport {
    std::uint64_t first_step = 0;
    std::uint64_t steps = 0;                // that gave the same bits
    std::uint64_t skipped = 0;              // steps besides whose updates were skipped
    cluster::Name lineage{};                // after them
    std::optional<std::string> difference;  // what was not the same, in a sentence; nothing follows it
};

struct ReplayCallbacks {
    std::function<void(const journal::Applied& step)> same;  // after each step that gave the same bits
    // The learner is to go on behind this step, which changed nothing.
    std::function<void(const journal::Applied& step)> skipped;
};

// Refuses in words a chain that does not begin where the learner stands, and views that say too little.
[[nodiscard]] Result<ReplayReport> replay(const CommittedChain& chain, const ReplayStart& start, Learner& learner,
                                          const ResultShape& shape, const ReplayCallbacks& callbacks);

}  // namespace chaos::elastic
