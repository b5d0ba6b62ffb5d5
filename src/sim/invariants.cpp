#include "sim/invariants.h"

#include "base/random.h"
#include "cluster/message.h"

#include <algorithm>

namespace chaos::sim {
namespace {

using cluster::Name;
using cluster::View;

constexpr std::size_t views_kept_whole = 64;
constexpr std::size_t members_compared_always = 64;

std::uint64_t head(const Name& name) {
    return cluster::HashName{}(name);
}

// The first field in which they differ; null: none.
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

std::string name_of(const View& view) {
    return "view " + std::to_string(view.epoch) + " (" + cluster::brief(view.name) + ")";
}

std::string host_name(Host host) {
    return "n" + std::to_string(host);
}

}  // namespace

void Invariants::fail(const std::string& what) {
    if (!failure_) failure_ = what;
}

void Invariants::fail(Host host, const std::string& what) {
    fail(host_name(host) + " " + what);
}

cluster::ViewPtr Invariants::view(const Name& name) const {
    const auto found = views_.find(name);
    return found == views_.end() ? nullptr : found->second.view;
}

bool Invariants::adopted(Host host, const cluster::ViewPtr& view) {
    const auto [at, added] = views_.try_emplace(view->name);
    Known& known = at->second;
    if (!added) {
        const bool compare = view->members.size() <= members_compared_always || host % 16 == 0;
        if (const char* what = known.view && known.view != view && compare ? difference(*known.view, *view) : nullptr)
            fail(host, "holds another content under the name of " + name_of(*view) + ": the " + what);
        return false;
    }
    known.view = view;
    known.label = name_of(*view);
    known.founded = view->settlement && (view->settlement->founded || view->settlement->from_joiners);
    order_.push_back(&known);
    if (order_.size() > views_kept_whole) order_[order_.size() - views_kept_whole - 1]->view = nullptr;
    if (view->fork) ++forks_;
    if (known.founded) ++foundings_;
    if (view->fork && strict_) fail(host, "forks to " + known.label + " although the policy is strict");
    const auto parent = views_.find(view->parent);
    known.fork_line = view->fork;
    // Without one, its parent was decided by nodes of which none lived to tell; it may still be told of later.
    if (parent != views_.end()) {
        known.parent = &parent->second;
        known.fork_line = known.fork_line || known.parent->fork_line;
        if (!view->fork) {
            if (known.parent->decided_child != nullptr)
                fail(host, "adopts " + known.label + ", but a quorum decided that " +
                               known.parent->decided_child->label + " follows " + known.parent->label);
            known.parent->decided_child = &known;
        }
    }
    if (!known.fork_line && (!youngest_ || youngest_->epoch < view->epoch)) youngest_ = view;
    if (youngest_ == nullptr) youngest_ = view;
    return true;
}

void Invariants::first_commit(Known& known, std::uint64_t step) {
    ++committed_steps_;
    for (const Known* before = known.founded ? nullptr : known.parent; before != nullptr;
         before = before->founded ? nullptr : before->parent)
        if (before->stable > step)
            return fail("I2: step " + std::to_string(step) + " is committed under " + known.label +
                        ", but it was stable under " + before->label);
    if (known.first_after < step)
        return fail("I2: step " + std::to_string(step) + " is committed under " + known.label + ", but step " +
                    std::to_string(known.first_after) + " was done again by a later view");
    // Everybody contributed to this step, so everybody has applied those before.
    known.stable = std::max(known.stable, step);
    if (!known.founded)
        for (Known* before = known.parent; before != nullptr && before->first_after > step; before = before->parent) {
            before->first_after = step;
            if (before->founded) break;
        }
    if (known.committed) return;
    known.committed = true;
    if (!strict_) return;
    const Known* child = &known;
    for (Known* before = known.parent; before != nullptr; child = before, before = before->parent) {
        if (before->committed_child == child) break;
        if (before->committed_child != nullptr)
            return fail("I4: steps are committed under " + child->label + " and under " +
                        before->committed_child->label + ", which both follow " + before->label);
        before->committed_child = child;
    }
}

bool Invariants::applied(Host host, cluster::MemberId member, const AppliedStep& step) {
    const StepResult& result = *step.result;
    const std::uint64_t number = result.record.step;
    const auto at = views_.find(result.record.view);
    if (at == views_.end()) {
        fail(host, "applies a step of a view that nobody adopted");
        return false;
    }
    Known& known = at->second;
    if (step.how == How::exchanged && known.view) {
        const cluster::MemberInfo* info = known.view->find(member.node);
        if (info == nullptr || info->id != member || info->standing != cluster::Standing::active)
            fail(host, "commits step " + std::to_string(number) + " under " + known.label + ", where it is not active");
        else if (number < known.view->first_step)
            fail(host, "commits step " + std::to_string(number) + " under " + known.label + ", which begins later");
    }
    const std::uint64_t key = random_bits(head(result.record.view), 0, number);
    const auto [commit, first] =
        commits_.try_emplace(key, Committed{.result_hash = result.record.result_hash, .state_hash = step.state_hash});
    if (first) {
        if (expected_step_ != number) {
            expected_step_ = number;
            expected_sum_ = whole_batch(*toy_, number);
        }
        if (result.mean.samples != toy_->batch || result.mean.sample_sum != expected_sum_)
            fail(host, "I6: step " + std::to_string(number) + " under " + known.label + " holds " +
                           std::to_string(result.mean.samples) + " samples" +
                           (result.mean.samples == toy_->batch ? ", some twice" : ""));
        first_commit(known, number);
    } else if (commit->second.result_hash != result.record.result_hash) {
        fail(host, "I1: has another result of step " + std::to_string(number) + " under " + known.label);
    } else if (commit->second.state_hash != step.state_hash) {
        fail(host, "I1: has another state after step " + std::to_string(number) + " under " + known.label);
    }
    same_state(host, result.lineage, step.state_hash);
    return first;
}

void Invariants::same_state(Host host, const Digest& lineage, std::uint64_t state_hash) {
    const auto [state, first] = states_.try_emplace(head(lineage), state_hash);
    if (state->second != state_hash) fail(host, "I1: has another state than others of the same lineage");
}

void Invariants::synced(Host host, const Digest& lineage, std::uint64_t state_hash) {
    if (const auto known = states_.find(head(lineage)); known != states_.end() && known->second != state_hash)
        fail(host, "I5: joined with another state than its donors'");
    same_state(host, lineage, state_hash);
}

}  // namespace chaos::sim
