#include "sim/exchange.h"

#include "base/assert.h"
#include "base/planted.h"

#include <algorithm>
#include <span>

namespace chaos::sim {

using cluster::NodeId;

Exchange::Exchange(TrainerEdge& edge, const Toy& toy, std::uint64_t step, cluster::ViewPtr view, PlanPtr plan)
    : edge_(edge),
      toy_(toy),
      step_(step),
      view_(std::move(view)),
      plan_(std::move(plan)),
      self_(plan_->index_of(edge.self())),
      branches_(plan_->trees.size()),
      results_missing_(plan_->trees.size()) {
    CHAOS_ASSERT(self_ < plan_->members.size());
    for (std::size_t tree = 0; tree < branches_.size(); ++tree)
        branches_[tree].sums.resize(plan_->trees[tree].children[self_].size());
}

ExchangeTag Exchange::tag_of(std::uint32_t tree) const {
    return {.view = view_->name, .step = step_, .plan = plan_->hash, .tree = tree};
}

bool Exchange::knows(const ExchangeTag& tag) const {
    return tag.plan == plan_->hash && tag.tree < branches_.size();
}

bool Exchange::passes_through(NodeId peer) const {
    const std::uint32_t other = plan_->index_of(peer);
    return other != self_ && other < plan_->members.size() &&
           std::ranges::any_of(
               plan_->trees,
               [&](const PlanTree& tree) { return tree.parent[self_] == other || tree.parent[other] == self_; });
}

bool Exchange::connected() const {
    return std::ranges::all_of(plan_->members,
                               [&](NodeId peer) { return !passes_through(peer) || edge_.linked(peer); });
}

void Exchange::contribute(const Gradient& own) {
    own_ = own;
    own_.values.resize(toy_.parameters);  // a share of nothing
    contributed_ = true;
    for (std::uint32_t tree = 0; tree < branches_.size(); ++tree) advance(tree);
}

bool Exchange::take_sum(NodeId from, const BulkPtr& message) {
    const auto& sum = std::get<PartialSum>(message->body);
    if (!knows(sum.tag)) return false;
    const std::vector<std::uint32_t>& children = plan_->trees[sum.tag.tree].children[self_];
    const auto child = std::find(children.begin(), children.end(), plan_->index_of(from));
    if (child == children.end() || sum.sum.values.size() != plan_->trees[sum.tag.tree].count) return false;
    BulkPtr& place = branches_[sum.tag.tree].sums[static_cast<std::size_t>(child - children.begin())];
    if (place == nullptr) {
        place = message;
        advance(sum.tag.tree);
    }
    return true;
}

bool Exchange::take_result(NodeId from, const BulkPtr& message) {
    const auto& result = std::get<TreeResult>(message->body);
    if (!knows(result.tag)) return false;
    const PlanTree& tree = plan_->trees[result.tag.tree];
    if (plan_->index_of(from) != tree.parent[self_] || result.mean.values.size() != tree.count) return false;
    if (branches_[result.tag.tree].result == nullptr) pass_down(result.tag.tree, message);
    return true;
}

void Exchange::advance(std::uint32_t index) {
    Branch& branch = branches_[index];
    if (!contributed_ || branch.said != nullptr) return;
    const auto missing = std::count(branch.sums.begin(), branch.sums.end(), nullptr);
    if (missing > (CHAOS_PLANTED(commit_without_all) ? 1 : 0)) return;
    const PlanTree& tree = plan_->trees[index];
    const auto mine = std::span(own_.values).subspan(tree.first, tree.count);
    Gradient sum{.values = {mine.begin(), mine.end()}, .sample_sum = own_.sample_sum, .samples = own_.samples};
    for (const BulkPtr& message : branch.sums) {
        if (message == nullptr) continue;
        const Gradient& child = std::get<PartialSum>(message->body).sum;
        for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += child.values[i];
        sum.sample_sum += child.sample_sum;
        sum.samples += child.samples;
    }
    const bool root = tree.parent[self_] == self_;
    if (!root) {
        branch.said = std::make_shared<const Bulk>(Bulk{PartialSum{tag_of(index), std::move(sum)}, tree.bytes});
        edge_.send(plan_->members[tree.parent[self_]], branch.said);
        return;
    }
    const auto count = static_cast<float>(std::max<std::uint64_t>(sum.samples, 1));
    for (float& value : sum.values) value /= count;
    branch.said = std::make_shared<const Bulk>(Bulk{TreeResult{tag_of(index), std::move(sum)}, tree.bytes});
    pass_down(index, branch.said);
}

void Exchange::pass_down(std::uint32_t index, const BulkPtr& message) {
    branches_[index].result = message;
    --results_missing_;
    for (const std::uint32_t child : plan_->trees[index].children[self_]) edge_.send(plan_->members[child], message);
}

void Exchange::say_again(NodeId peer) {
    const std::uint32_t other = plan_->index_of(peer);
    if (other == plan_->members.size()) return;
    for (std::size_t index = 0; index < branches_.size(); ++index) {
        const Branch& branch = branches_[index];
        const PlanTree& tree = plan_->trees[index];
        if (tree.parent[self_] == other && self_ != other && branch.said != nullptr && branch.result == nullptr)
            edge_.send(peer, branch.said);
        if (tree.parent[other] == self_ && self_ != other && branch.result != nullptr) edge_.send(peer, branch.result);
    }
}

Gradient Exchange::result() const {
    Gradient all;
    all.values.resize(toy_.parameters);
    for (std::size_t index = 0; index < branches_.size(); ++index) {
        const Gradient& part = std::get<TreeResult>(branches_[index].result->body).mean;
        std::copy(part.values.begin(), part.values.end(),
                  all.values.begin() + static_cast<std::ptrdiff_t>(plan_->trees[index].first));
        if (index > 0 && (part.sample_sum != all.sample_sum || part.samples != all.samples))
            edge_.broken("the trees of step " + std::to_string(step_) + " carry different samples");
        all.sample_sum = part.sample_sum;
        all.samples = part.samples;
    }
    return all;
}

}  // namespace chaos::sim
