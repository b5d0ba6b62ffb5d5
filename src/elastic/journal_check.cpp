#include "elastic/journal_check.h"

#include <algorithm>

namespace chaos::elastic {
namespace {

using namespace journal;

constexpr std::size_t lineages_remembered = 1024;  // the root of a state may be said some steps later

std::string steps(std::uint64_t count) {
    return std::to_string(count) + (count == 1 ? " step" : " steps");
}

std::string say(data::Position position) {
    return "sample " + std::to_string(position.index) + " of pass " + std::to_string(position.pass);
}

bool covers(const std::vector<cluster::Share>& shares, std::uint32_t batch) {
    std::vector<cluster::SampleRange> all;
    for (const cluster::Share& share : shares) all.insert(all.end(), share.ranges.begin(), share.ranges.end());
    std::ranges::sort(all);
    std::uint32_t at = 0;
    for (const cluster::SampleRange& range : all) {
        if (range.begin != at || range.end <= range.begin) return false;
        at = range.end;
    }
    return at == batch;
}

}  // namespace

std::string JournalCheck::who() const {
    return reading_.node ? cluster::brief(*reading_.node) : "a node";
}

std::string JournalCheck::label(const Name& view) const {
    const auto known = views_.find(view);
    return known == views_.end() ? "view " + cluster::brief(view) : cluster::label_of(*known->second.view);
}

void JournalCheck::violated(const std::string& what) {
    if (report_.violations.size() < max_violations) {
        report_.violations.push_back(what);
    } else {
        ++report_.more_violations;
    }
}

// ---- entry by entry

void JournalCheck::begin_journal() {
    reading_ = {};
    report_.nodes.emplace_back();
}

void JournalCheck::add(const TimedEntry& entry) {
    CHAOS_ASSERT(!report_.nodes.empty());
    now_ns_ = entry.time_ns;
    std::visit([this](const auto& what) { read(what); }, entry.entry);
}

void JournalCheck::read(const Begun& begun) {
    if (reading_.node && *reading_.node != begun.member.node)
        violated(who() + "'s journal goes on as that of " + cluster::brief(begun.member.node));
    if (run_ && *run_ != begun.run)
        violated(cluster::brief(begun.member.node) + " trains another run, " + cluster::brief(begun.run) +
                 ", than the others, " + cluster::brief(*run_));
    run_ = begun.run;
    reading_ = {};
    reading_.node = begun.member.node;
    reading_.incarnation = begun.member.incarnation;
    report_.nodes.back().node = begun.member.node;
    ++report_.nodes.back().lives;
}

void JournalCheck::read(const Adopted& adopted) {
    const cluster::View& view = *adopted.view;
    const auto [at, added] =
        views_.try_emplace(view.name, KnownView{.view = adopted.view, .by = reading_.node.value_or(NodeId{})});
    if (!added) {
        if (const char* what = cluster::difference(*at->second.view, view))
            violated("I1: " + who() + " holds another content under the name of " + cluster::label_of(view) + " than " +
                     cluster::brief(at->second.by) + ": the " + what);
        if (!at->second.view->redo_known) at->second.view = adopted.view;
    }
    for (const cluster::MemberInfo& member : view.members) members_.insert(member.id.node);
    if (view.settlement) report_.nodes.back().longest_pause_since_fault_ns = 0;
    // Who was let in and had not begun when a fault came is a newcomer again; and of an earlier life it may still hear
    // that it is a member.
    const bool active = reading_.node && view.is_active(*reading_.node) &&
                        view.find(*reading_.node)->id.incarnation >= reading_.incarnation;
    reading_.active_in = active ? std::optional(view.name) : std::nullopt;
}

void JournalCheck::place(std::uint64_t applied, const Name& lineage, bool synced) {
    reading_.placed = reading_.just_placed = true;
    reading_.applied = applied;
    reading_.lineage = lineage;
    reading_.just_synced = synced;
    reading_.end.reset();
    reading_.view.reset();
    reading_.lineages = {{applied, lineage}};
    report_.nodes.back().applied = applied;
    starts_.push_back({.by = reading_.node.value_or(NodeId{}),
                       .applied = applied,
                       .lineage = lineage,
                       .restored = !synced,
                       .begin = std::nullopt});
}

void JournalCheck::read(const Restored& restored) {
    place(restored.applied, restored.lineage, false);
}

void JournalCheck::read(const Synced& synced) {
    place(synced.applied, synced.lineage, true);
    check_root(synced.lineage, synced.applied, synced.root, true);
}

void JournalCheck::read(const Applied& applied) {
    NodeFigures& figures = report_.nodes.back();
    const state::StepRecord& record = applied.record;
    const bool follows_on = reading_.placed && reading_.applied == record.step;
    const std::optional<Name> before = follows_on ? std::optional(reading_.lineage) : std::nullopt;
    check_chain(applied);
    check_taking_part(applied);
    check_position(record);
    check_commit(applied, before);
    note_pause(record.step);

    if (before) lineages_[*before].stable = true;  // everybody contributed, so everybody had it
    Lineage& lineage = lineages_[applied.lineage];
    lineage.applied = record.step + 1;
    lineage.end = *reading_.end;

    reading_.placed = true;
    reading_.just_placed = reading_.just_synced = false;
    reading_.applied = figures.applied = record.step + 1;
    reading_.lineage = applied.lineage;
    reading_.view = record.view;
    reading_.lineages.emplace_back(reading_.applied, applied.lineage);
    if (reading_.lineages.size() > lineages_remembered) reading_.lineages.pop_front();
    if (applied.how == How::exchanged) ++figures.exchanged;
    if (applied.how == How::taken) ++figures.taken;
    if (applied.how == How::followed) ++figures.followed;
}

// Steps follow each other, and the lineage is the chain of their records.
void JournalCheck::check_chain(const Applied& applied) {
    const state::StepRecord& record = applied.record;
    const std::string what = "I6: " + who() + " applies step " + std::to_string(record.step);
    if (!reading_.placed) {
        violated(what + " and has not said where its state comes from");
    } else if (reading_.applied != record.step) {
        violated(what + " to a state of " + steps(reading_.applied));
    } else if (state::extend_lineage(reading_.lineage, record) != applied.lineage) {
        violated("I6: " + who() + " has a lineage after step " + std::to_string(record.step) + " under " +
                 label(record.view) + " that is not the hash of the step's record");
    }
}

// Only who is active in a view takes part in its steps.
void JournalCheck::check_taking_part(const Applied& applied) {
    if (applied.how != How::exchanged) return;
    const state::StepRecord& record = applied.record;
    const std::string what = who() + " commits step " + std::to_string(record.step) + " under " + label(record.view);
    const auto known = views_.find(record.view);
    if (known == views_.end()) return violated(what + ", which it never adopted");
    const cluster::View& view = *known->second.view;
    if (reading_.node && !view.is_active(*reading_.node)) return violated(what + ", where it is not active");
    if (record.step < view.first_step) violated(what + ", which begins later");
}

// The data position moves by the batch.
void JournalCheck::check_position(const state::StepRecord& record) {
    const data::Position begin{.pass = record.pass, .index = record.index};
    const std::string what = "I6: " + who() + " begins step " + std::to_string(record.step) + " under " +
                             label(record.view) + " with " + say(begin);
    if (record.step == 0 && begin != data::Position{}) {
        violated(what + ", not with the first sample");
    } else if (reading_.end && !follows(*reading_.end, begin)) {
        violated(what + ", but the step before ended with " + say(*reading_.end));
    }
    if (reading_.just_placed) starts_.back().begin = begin;
    std::uint64_t batch = record.samples;
    if (const auto known = views_.find(record.view); known != views_.end()) batch = known->second.view->batch;
    reading_.end = {.pass = record.pass, .index = record.index + batch};
}

// Whether a step that begins there follows one that ends here. Passes are all of one length, which the first step into
// a new one tells.
bool JournalCheck::follows(data::Position end, data::Position begin) {
    std::uint64_t& samples = report_.pass_samples;
    if (begin.pass == end.pass) return begin.index == end.index && (samples == 0 || begin.index < samples);
    if (begin.pass < end.pass || begin.index > end.index) return false;
    const std::uint64_t passes = begin.pass - end.pass;
    const std::uint64_t between = end.index - begin.index;
    if (between % passes != 0 || between / passes <= begin.index) return false;
    if (samples == 0) samples = between / passes;
    return samples == between / passes;
}

// One (view, step): one record, and one lineage before and after it.
void JournalCheck::check_commit(const Applied& applied, const std::optional<Name>& before) {
    const state::StepRecord& record = applied.record;
    auto [at, first] = commits_[record.view].try_emplace(record.step);
    Commit& commit = at->second;
    const Name hash = state::extend_lineage({}, record);
    const std::string step = " step " + std::to_string(record.step) + " under " + label(record.view);
    if (first) {
        commit.by = reading_.node.value_or(NodeId{});
        commit.result_hash = record.result_hash;
        commit.record = hash;
        commit.before = before;
        commit.after = applied.lineage;
        commit.after_sync = reading_.just_synced;
        report_.samples_lost += applied.samples_lost;
        const auto known = views_.find(record.view);
        if (known != views_.end() && record.samples + applied.samples_lost != known->second.view->batch)
            violated("I6:" + step + " holds " + std::to_string(record.samples) + " samples and lost " +
                     std::to_string(applied.samples_lost) + " of " + std::to_string(known->second.view->batch));
    } else {
        const std::string than = " than " + cluster::brief(commit.by);
        if (commit.result_hash != record.result_hash) {
            violated("I1: " + who() + " has another result of" + step + than);
        } else if (commit.record != hash) {
            violated("I1: " + who() + " has another record of" + step + than);
        } else if (before && commit.before && *before != *commit.before) {
            const bool joined = reading_.just_synced || commit.after_sync;
            violated((joined ? "I5: " : "I1: ") + who() + " has another lineage before" + step + than);
        } else if (commit.after != applied.lineage) {
            violated("I1: " + who() + " has another lineage after" + step + than);
        }
    }
    if (commit.appliers == 0 || commit.last_journal != report_.nodes.size()) ++commit.appliers;
    commit.last_journal = report_.nodes.size();
}

void JournalCheck::note_pause(std::uint64_t step) {
    NodeFigures& figures = report_.nodes.back();
    if (reading_.applied_at_ns) {
        const std::int64_t pause = now_ns_ - *reading_.applied_at_ns;
        figures.longest_pause_since_fault_ns = std::max(figures.longest_pause_since_fault_ns, pause);
        if (pause > figures.longest_pause_ns) {
            figures.longest_pause_ns = pause;
            figures.longest_pause_step = step;
        }
    }
    reading_.applied_at_ns = now_ns_;
}

void JournalCheck::read(const StateHash& hash) {
    const auto at = std::ranges::find(reading_.lineages, hash.applied, &std::pair<std::uint64_t, Name>::first);
    if (at == reading_.lineages.end())
        return violated("I1: " + who() + " says the root of its state after " + steps(hash.applied) + ", but it has " +
                        "no such state");
    check_root(at->second, hash.applied, hash.root, false);
}

void JournalCheck::check_root(const Name& lineage, std::uint64_t applied, const Name& root, bool synced) {
    const auto [at, first] =
        roots_.try_emplace(lineage, Root{.root = root, .by = reading_.node.value_or(NodeId{}), .synced = synced});
    if (first || at->second.root == root) return;
    violated((synced || at->second.synced ? "I5: " : "I1: ") + who() + " has another state after " + steps(applied) +
             " than " + cluster::brief(at->second.by) + ", and the same lineage");
}

void JournalCheck::read(const Stable& stable) {
    const auto at = std::ranges::find(reading_.lineages, stable.steps, &std::pair<std::uint64_t, Name>::first);
    if (at != reading_.lineages.end()) lineages_[at->second].stable = true;
    // That the next step was completed proves it to all that came of that step's view. Without that, its members told
    // each other, under the youngest view.
    const std::optional<Name>& under = stable.steps < reading_.applied ? reading_.view : reading_.active_in;
    if (!under) return;
    if (const auto known = views_.find(*under); known != views_.end())
        known->second.stable = std::max(known->second.stable, stable.steps);
}

void JournalCheck::read(const Skipped& skipped) {
    skipped_.emplace(skipped.view, skipped.step);
}

void JournalCheck::read(const Excluded&) {
    ++report_.nodes.back().exclusions;
    reading_.view.reset();
    reading_.active_in.reset();
}

void JournalCheck::read(const Left&) {
    report_.nodes.back().left = true;
}

// ---- all together

CheckReport JournalCheck::finish() {
    check_lines();
    check_starts();
    report_.members = members_.size();
    report_.views = views_.size();
    report_.skipped = skipped_.size();
    return std::move(report_);
}

void JournalCheck::check_lines() {
    std::vector<const KnownView*> order;  // parents before children
    order.reserve(views_.size());
    for (const auto& [name, known] : views_) order.push_back(&known);
    std::ranges::sort(order, {},
                      [](const KnownView* known) { return std::pair(known->view->epoch, known->view->name); });
    cluster::Ancestry ancestry(std::ranges::any_of(order, [](const KnownView* known) { return known->view->strict; }));
    for (const KnownView* known : order) {
        if (const auto wrong = ancestry.adopted(*known->view))
            violated("I4: " + cluster::brief(known->by) + " " + *wrong);
        ancestry.stable(known->view->name, known->stable);
    }
    report_.forks = ancestry.forks();
    report_.foundings = ancestry.foundings();
    for (const auto& [name, of_view] : commits_) {
        report_.committed += of_view.size();
        if (!views_.contains(name)) ++report_.unknown_views;
    }
    for (const KnownView* known : order) {
        const auto of_view = commits_.find(known->view->name);
        if (of_view == commits_.end()) continue;
        bool sound = true;  // what follows a step that must not be would be said again and again
        for (const auto& [step, commit] : of_view->second) {
            check_shares(*known->view, step);
            const auto wrong = sound ? ancestry.committed(known->view->name, step) : std::nullopt;
            if (wrong) violated(*wrong);
            sound = sound && !wrong;
            // Everybody is known to have applied it, even if no later step proves it.
            if (commit.appliers >= known->view->active_count()) lineages_[commit.after].stable = true;
        }
    }
}

void JournalCheck::check_shares(const cluster::View& view, std::uint64_t step) {
    if (step < view.first_step || (step == view.first_step && view.settlement && !view.redo_known)) return;
    // What is divided, and among whom, is the same for all steps but the first of the view and of its members.
    const bool special = step == view.first_step || std::ranges::any_of(view.members, [&](const auto& member) {
                             return member.first_step == step;
                         });
    const bool first = commits_[view.name].begin()->first == step;
    if ((special || first) && !covers(cluster::shares_of(view, step), view.batch))
        violated("I6: the shares of step " + std::to_string(step) + " under " + cluster::label_of(view) +
                 " are not its batch, each sample once");
}

// Where states came from somewhere else.
void JournalCheck::check_starts() {
    for (const Start& start : starts_) {
        const auto known = lineages_.find(start.lineage);
        if (known == lineages_.end() || known->second.applied == 0) continue;  // nobody tells how it came about
        const Lineage& lineage = known->second;
        const std::string node = cluster::brief(start.by);
        if (lineage.applied != start.applied) {
            violated((start.restored ? "I2: " : "I5: ") + node + " has a state of " + steps(start.applied) +
                     " with the lineage of one of " + steps(lineage.applied));
        } else if (start.restored && !lineage.stable) {
            violated("I2: " + node + " goes back to its checkpoint of " + steps(start.applied) +
                     ", but the last of them was never known to be stable");
        } else if (start.begin && !follows(lineage.end, *start.begin)) {
            violated("I6: " + node + " begins step " + std::to_string(start.applied) + " with " + say(*start.begin) +
                     ", but the step before ended with " + say(lineage.end));
        }
    }
}

}  // namespace chaos::elastic
