// A line: the chain of views that a node has followed. It answers which view governs a step, what a peer that is
// behind has missed, and, when two lines meet, which of them goes on.
#pragma once

#include "base/assert.h"
#include "cluster/message.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace chaos::cluster {

// Views computed once for many members of one process, by name.
class ViewCache {
public:
    [[nodiscard]] ViewPtr find(const Name& name) const;
    void add(const ViewPtr& view);

private:
    std::map<Name, std::weak_ptr<const View>> views_;
};

// How another line relates to ours.
enum class Meet : std::uint8_t {
    same,           // equal, or theirs is a stretch of ours
    behind,         // ours is a stretch of theirs
    win,            // theirs ends
    lose,           // ours ends: its members join theirs
    must_freeze,    // both are forks: our side must agree on its number of samples first
    other_freezes,  // ... and theirs has not done so yet
    strangers,      // different founders
    too_long_ago,   // no common view is among those that are remembered, or were told
    impossible,     // both claim a quorum of one view: somebody lies
};

class Line {
public:
    // Begins at this view; `ancestors` are those before it, oldest first.
    void begin(ViewPtr view, std::vector<Ancestor> ancestors);
    // `decision` leads from the tip to `view`. Old views are forgotten, but never the one that governs `needed_step`.
    void append(ViewPtr view, DecidePtr decision, std::uint64_t needed_step);
    void clear();

    [[nodiscard]] bool empty() const { return views_.empty(); }
    [[nodiscard]] const ViewPtr& tip() const {
        CHAOS_ASSERT(!views_.empty());
        return views_.back();
    }
    // What led to the view of this epoch; null: not known any more.
    [[nodiscard]] DecidePtr decision(std::uint64_t epoch) const;
    // The youngest view whose first step is not after `step`; null when that is older than what is kept.
    [[nodiscard]] ViewPtr governing(std::uint64_t step) const;
    [[nodiscard]] bool contains(const Name& view, std::uint64_t epoch) const;
    // The name of our view of that epoch, if it is known.
    [[nodiscard]] const Ancestor* at(std::uint64_t epoch) const;

    // What leads from that view to the tip; nothing if it is not ours or too old. At most `limit` decisions.
    [[nodiscard]] std::optional<std::vector<Decide>> since(const Name& view, std::uint64_t epoch,
                                                           std::size_t limit) const;
    // For a newcomer: the view that governs `step`, and what followed.
    [[nodiscard]] History whole(std::uint64_t step) const;
    // The tip and all before it, oldest first.
    [[nodiscard]] const std::vector<Ancestor>& ancestors() const { return ancestors_; }

    struct Meeting {
        Meet outcome = Meet::same;
        Name their_child{};  // their first view after the last common one
        Name our_child{};
    };
    [[nodiscard]] Meeting meet(const LineSummary& theirs) const;

private:
    std::deque<ViewPtr> views_;        // the youngest ones, tip last
    std::deque<DecidePtr> decisions_;  // the last one led to the tip
    std::vector<Ancestor> ancestors_;  // of all views up to the tip, by epoch without gaps
};

}  // namespace chaos::cluster
