// All views that anybody adopted, how they follow each other, and which steps were committed under them: what must be
// true of all lines together. Those who watch a cluster use it, from outside (the simulator) or afterwards (from
// journals); a member knows its own line only.
//
//   I2  a stable step is never undone: no descendant of a view commits a step that was stable there
//   I4  strict: of two children of a view, steps are committed under at most one, and there are no forks; but a fork
//       that a person forced is a line of its own
//   and a view has at most one child that a quorum decided.
//
// Founding anew from a checkpoint goes back on purpose: stable steps are counted from there again.
#pragma once

#include "cluster/view.h"

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace chaos::cluster {

// The first field in which two views of one name differ; null: none.
[[nodiscard]] const char* difference(const View& x, const View& y);

// "view 7 (0a1b2c3d)"
[[nodiscard]] std::string label_of(const View& view);

class Ancestry {
public:
    explicit Ancestry(bool strict) : strict_(strict) {}

    // A view that was not told of before; its parent first, where anybody tells of that at all. What whoever adopted it
    // did wrong, as the rest of a sentence about it; nullopt: nothing.
    [[nodiscard]] std::optional<std::string> adopted(const View& view);
    // For each view and step once, in any order. What is wrong, as a sentence.
    [[nodiscard]] std::optional<std::string> committed(const Name& view, std::uint64_t step);
    // The first so many steps were stable when this view held. To be told before what others committed is.
    void stable(const Name& view, std::uint64_t steps);

    [[nodiscard]] bool knows(const Name& view) const { return views_.contains(view); }
    [[nodiscard]] const std::string& label(const Name& view) const { return views_.at(view).label; }
    // It, or a view before it, is a fork.
    [[nodiscard]] bool on_fork(const Name& view) const { return views_.at(view).on_fork; }
    [[nodiscard]] std::uint64_t forks() const { return forks_; }
    [[nodiscard]] std::uint64_t foundings() const { return foundings_; }

private:
    struct Known {
        Known* parent = nullptr;
        bool on_fork = false;
        bool forced = false;
        bool founded = false;
        const Known* decided_child = nullptr;    // by a quorum
        const Known* committed_child = nullptr;  // under it, or what follows it, steps were committed
        bool committed = false;
        std::uint64_t stable = 0;                       // the steps that all its members were proven to have applied
        std::uint64_t first_after = ~std::uint64_t{0};  // the earliest step that a descendant committed
        std::string label;
    };

    bool strict_;
    std::unordered_map<Name, Known, HashName> views_;
    std::uint64_t forks_ = 0;
    std::uint64_t foundings_ = 0;
};

}  // namespace chaos::cluster
