#include "cluster/ancestry.h"

#include <algorithm>

namespace chaos::cluster {

const char* difference(const View& x, const View& y) {
    if (x.parent != y.parent || x.epoch != y.epoch) return "parent";
    if (x.first_step != y.first_step) return "first step";
    if (x.fork != y.fork || x.strict != y.strict || x.batch != y.batch) return "policy";
    if (x.settlement != y.settlement) return "settlement";
    if (x.members != y.members) return "members";
    if (x.links != y.links) return "links";
    if (x.institutions != y.institutions || x.revoked != y.revoked) return "institutions";
    if (x.tokens != y.tokens) return "used tokens";
    if (x.redo_known && y.redo_known && x.redo != y.redo) return "shares of the redone step";
    return nullptr;
}

std::string label_of(const View& view) {
    return "view " + std::to_string(view.epoch) + " (" + brief(view.name) + ")";
}

std::optional<std::string> Ancestry::adopted(const View& view) {
    Known& known = views_[view.name];
    known.label = label_of(view);
    known.founded = view.settlement && (view.settlement->founded || view.settlement->from_joiners);
    if (view.is_fork()) ++forks_;
    if (known.founded) ++foundings_;
    known.on_fork = view.is_fork();
    known.forced = view.fork == Fork::forced;
    std::optional<std::string> wrong;
    if (view.fork == Fork::waited && strict_) wrong = "forks to " + known.label + " although the policy is strict";
    // Without one, its parent was decided by nodes of which none lived to tell; it may still be told of later.
    const auto parent = views_.find(view.parent);
    if (parent == views_.end()) return wrong;
    known.parent = &parent->second;
    known.on_fork = known.on_fork || known.parent->on_fork;
    if (view.is_fork()) return wrong;
    if (known.parent->decided_child != nullptr && !wrong)
        wrong = "adopts " + known.label + ", but a quorum decided that " + known.parent->decided_child->label +
                " follows " + known.parent->label;
    known.parent->decided_child = &known;
    return wrong;
}

void Ancestry::stable(const Name& view, std::uint64_t steps) {
    Known& known = views_.at(view);
    known.stable = std::max(known.stable, steps);
}

std::optional<std::string> Ancestry::committed(const Name& view, std::uint64_t step) {
    Known& known = views_.at(view);
    for (const Known* before = known.founded ? nullptr : known.parent; before != nullptr;
         before = before->founded ? nullptr : before->parent)
        if (before->stable > step)
            return "I2: step " + std::to_string(step) + " is committed under " + known.label +
                   ", but it was stable under " + before->label;
    if (known.first_after < step)
        return "I2: step " + std::to_string(step) + " is committed under " + known.label + ", but step " +
               std::to_string(known.first_after) + " was done again by a later view";
    // Everybody contributed to this step, so everybody has applied those before.
    known.stable = std::max(known.stable, step);
    if (!known.founded)
        for (Known* before = known.parent; before != nullptr && before->first_after > step; before = before->parent) {
            before->first_after = step;
            if (before->founded) break;
        }
    if (known.committed) return std::nullopt;
    known.committed = true;
    if (!strict_) return std::nullopt;
    const Known* child = &known;
    for (Known* before = known.parent; before != nullptr; child = before, before = before->parent) {
        if (child->forced) continue;
        if (before->committed_child == child) break;
        if (before->committed_child != nullptr)
            return "I4: steps are committed under " + child->label + " and under " + before->committed_child->label +
                   ", which both follow " + before->label;
        before->committed_child = child;
    }
    return std::nullopt;
}

}  // namespace chaos::cluster
