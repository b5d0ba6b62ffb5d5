#include "sim/invariants.h"

#include "base/random.h"
#include "cluster/message.h"

#include <algorithm>

namespace chaos::sim {
namespace {

using cluster::Name;

constexpr std::size_t views_kept_whole = 64;
constexpr std::size_t members_compared_always = 64;

std::uint64_t head(const Name& name) {
    return cluster::HashName{}(name);
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
    return found == views_.end() ? nullptr : found->second;
}

bool Invariants::adopted(Host host, const cluster::ViewPtr& view) {
    const auto [at, added] = views_.try_emplace(view->name);
    cluster::ViewPtr& known = at->second;
    if (!added) {
        const bool compare = view->members.size() <= members_compared_always || host % 16 == 0;
        if (const char* what = known && known != view && compare ? cluster::difference(*known, *view) : nullptr)
            fail(host, "holds another content under the name of " + cluster::label_of(*view) + ": the " + what);
        return false;
    }
    known = view;
    order_.push_back(&known);
    if (order_.size() > views_kept_whole) *order_[order_.size() - views_kept_whole - 1] = nullptr;
    if (const auto wrong = ancestry_.adopted(*view)) fail(host, *wrong);
    const bool decided = !ancestry_.on_fork(view->name);
    if (youngest_ == nullptr || (decided && youngest_->epoch < view->epoch)) youngest_ = view;
    return true;
}

bool Invariants::applied(Host host, cluster::MemberId member, const AppliedStep& step) {
    const StepResult& result = *step.result;
    const std::uint64_t number = result.record.step;
    const auto at = views_.find(result.record.view);
    if (at == views_.end()) {
        fail(host, "applies a step of a view that nobody adopted");
        return false;
    }
    const cluster::ViewPtr& view = at->second;
    const std::string& label = ancestry_.label(result.record.view);
    if (step.how == How::exchanged && view) {
        const cluster::MemberInfo* info = view->find(member.node);
        if (info == nullptr || info->id != member || info->standing != cluster::Standing::active)
            fail(host, "commits step " + std::to_string(number) + " under " + label + ", where it is not active");
        else if (number < view->first_step)
            fail(host, "commits step " + std::to_string(number) + " under " + label + ", which begins later");
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
            fail(host, "I6: step " + std::to_string(number) + " under " + label + " holds " +
                           std::to_string(result.mean.samples) + " samples" +
                           (result.mean.samples == toy_->batch ? ", some twice" : ""));
        ++committed_steps_;
        if (const auto wrong = ancestry_.committed(result.record.view, number)) fail(*wrong);
    } else if (commit->second.result_hash != result.record.result_hash) {
        fail(host, "I1: has another result of step " + std::to_string(number) + " under " + label);
    } else if (commit->second.state_hash != step.state_hash) {
        fail(host, "I1: has another state after step " + std::to_string(number) + " under " + label);
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
