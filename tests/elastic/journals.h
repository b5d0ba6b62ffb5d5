// Journals for tests, as nodes that keep to the rules would write them.
#pragma once

#include "data/order.h"
#include "elastic/journal.h"
#include "elastic/lines.h"

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace chaos::elastic::test {

using Entries = std::vector<journal::TimedEntry>;

class Scribe {
public:
    static constexpr std::uint64_t pass_samples = 100;
    static constexpr std::int64_t step_ns = 1'000'000;

    explicit Scribe(std::uint64_t number) : number_(number) { begin(); }

    void say(journal::Entry entry) { entries.push_back({.time_ns = now_ns, .entry = std::move(entry)}); }
    void begin(std::uint64_t incarnation = 1) {
        say(journal::Begun{.member = {.node = node(number_), .incarnation = incarnation},
                           .run = name(9),
                           .threads = 1,
                           .version = "test"});
    }
    void adopt(const ViewPtr& view) { say(journal::Adopted{view}); }
    void restore() { restore(0, name(9)); }
    void restore(std::uint64_t to_applied, const cluster::Name& to_lineage) {
        applied = to_applied;
        lineage = to_lineage;
        say(journal::Restored{.applied = applied, .lineage = lineage});
    }
    void sync_from(const Scribe& donor) {
        applied = donor.applied;
        lineage = donor.lineage;
        say(journal::Synced{.applied = applied, .lineage = lineage, .root = root()});
    }
    // What the state hashes to; a real one has floats.
    [[nodiscard]] cluster::Name root() const { return sha256(std::string(lineage.begin(), lineage.end())); }
    void say_root() { say(journal::StateHash{.applied = applied, .root = root()}); }

    // The record of the next step; the same for everybody.
    [[nodiscard]] state::StepRecord record(const ViewPtr& view) const {
        const data::Position begin = data::advance({}, applied * view->batch, pass_samples);
        state::StepRecord made;
        made.step = applied;
        made.view = view->name;
        made.pass = begin.pass;
        made.index = begin.index;
        made.samples = view->batch;
        made.loss = 1.0 / static_cast<double>(applied + 1);
        made.result_hash = view->epoch * 1000 + applied;
        return made;
    }
    void apply(const state::StepRecord& record, journal::How how = journal::How::exchanged) {
        lineage = state::extend_lineage(lineage, record);
        applied = record.step + 1;
        now_ns += step_ns;
        say(journal::Applied{.record = record, .lineage = lineage, .how = how, .samples_lost = 0});
        say(journal::Stable{record.step});
    }
    void apply(const ViewPtr& view, journal::How how = journal::How::exchanged) { apply(record(view), how); }

    std::uint64_t applied = 0;
    cluster::Name lineage{};
    std::int64_t now_ns = 1'000'000'000;
    Entries entries;

private:
    std::uint64_t number_;
};

}  // namespace chaos::elastic::test
