// Whether what must always be true was true, from the journals of any of a cluster's nodes. docs/journal.md says what
// is checked. Pure: entries go in, sentences come out.
#pragma once

#include "cluster/ancestry.h"
#include "data/order.h"
#include "elastic/journal.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace chaos::elastic {

struct NodeFigures {
    cluster::NodeId node;
    std::uint64_t lives = 0;
    std::uint64_t applied = 0;  // steps of its state at the end
    std::uint64_t exchanged = 0;
    std::uint64_t taken = 0;
    std::uint64_t followed = 0;
    std::uint64_t exclusions = 0;
    bool left = false;
    // Between two steps of one life, and the step that it ended with.
    std::int64_t longest_pause_ns = 0;
    std::uint64_t longest_pause_step = 0;
    std::int64_t longest_pause_since_fault_ns = 0;  // that ended after the last settlement it adopted
};

struct CheckReport {
    std::vector<std::string> violations;  // at most max_violations
    std::uint64_t more_violations = 0;
    std::vector<NodeFigures> nodes;  // one per journal
    std::uint64_t views = 0;
    std::uint64_t unknown_views = 0;  // that steps name, but no journal holds
    std::uint64_t members = 0;        // nodes that were ever in a view
    std::uint64_t forks = 0;
    std::uint64_t foundings = 0;
    std::uint64_t committed = 0;     // steps, those that were done again under another view too
    std::uint64_t pass_samples = 0;  // 0: nobody came to the end of a pass
    std::uint64_t samples_lost = 0;
    std::uint64_t skipped = 0;  // updates

    [[nodiscard]] bool sound() const { return violations.empty(); }
};

class JournalCheck {
public:
    static constexpr std::size_t max_violations = 100;

    // The entries of one journal, in order, then those of the next.
    void begin_journal();
    void add(const journal::TimedEntry& entry);
    [[nodiscard]] CheckReport finish();

private:
    using Name = cluster::Name;
    using NodeId = cluster::NodeId;

    // Where the journal that is read has come to.
    struct Reading {
        std::optional<NodeId> node;
        std::uint64_t incarnation = 0;  // that this life began with; it may come back with later ones
        bool placed = false;            // it was said where the state comes from
        std::uint64_t applied = 0;
        Name lineage{};
        bool just_synced = false;
        bool just_placed = false;
        std::optional<data::Position> end;                    // of the last step; the index may lie beyond the pass
        std::optional<Name> view;                             // of the last step
        std::optional<Name> active_in;                        // the youngest view it adopted, if it is active there
        std::deque<std::pair<std::uint64_t, Name>> lineages;  // by steps applied, the youngest ones
        std::optional<std::int64_t> applied_at_ns;
    };
    struct KnownView {
        cluster::ViewPtr view;
        NodeId by;
        std::uint64_t stable = 0;
    };
    struct Commit {
        NodeId by;
        std::uint64_t result_hash = 0;
        Name record{};  // a hash of all of it
        std::optional<Name> before;
        Name after{};
        bool after_sync = false;
        std::uint64_t appliers = 0;
        std::size_t last_journal = 0;
    };
    struct Lineage {
        std::uint64_t applied = 0;
        data::Position end;
        bool stable = false;
    };
    struct Root {
        Name root{};
        NodeId by;
        bool synced = false;
    };
    struct Start {  // a journal's steps begin here
        NodeId by;
        std::uint64_t applied = 0;
        Name lineage{};
        bool restored = false;
        std::optional<data::Position> begin;  // of the first step after it
    };

    void read(const journal::Begun& begun);
    void read(const journal::Adopted& adopted);
    void read(const journal::Applied& applied);
    void read(const journal::StateHash& hash);
    void read(const journal::Synced& synced);
    void read(const journal::Restored& restored);
    void read(const journal::Stable& stable);
    void read(const journal::Skipped& skipped);
    void read(const journal::Excluded& excluded);
    void read(const journal::Left& left);

    void place(std::uint64_t applied, const Name& lineage, bool synced);
    void check_chain(const journal::Applied& applied);
    void check_taking_part(const journal::Applied& applied);
    void check_position(const state::StepRecord& record);
    void check_commit(const journal::Applied& applied, const std::optional<Name>& before);
    void check_root(const Name& lineage, std::uint64_t applied, const Name& root, bool synced);
    void note_pause(std::uint64_t step);
    [[nodiscard]] bool follows(data::Position end, data::Position begin);
    void check_lines();
    void check_shares(const cluster::View& view, std::uint64_t step);
    void check_starts();
    [[nodiscard]] std::string who() const;
    [[nodiscard]] std::string label(const Name& view) const;
    void violated(const std::string& what);

    CheckReport report_;
    std::int64_t now_ns_ = 0;
    Reading reading_;
    std::optional<Name> run_;
    std::unordered_map<Name, KnownView, cluster::HashName> views_;
    std::unordered_map<Name, std::map<std::uint64_t, Commit>, cluster::HashName> commits_;
    std::unordered_map<Name, Lineage, cluster::HashName> lineages_;
    std::unordered_map<Name, Root, cluster::HashName> roots_;
    std::vector<Start> starts_;
    std::set<std::pair<Name, std::uint64_t>> skipped_;  // view, step
    std::set<NodeId> members_;
};

}  // namespace chaos::elastic
