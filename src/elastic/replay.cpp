#include "elastic/replay.h"

#include "cluster/ancestry.h"
#include "collective/sum_in_order.h"

#include <algorithm>
#include <unordered_map>

namespace chaos::elastic {
namespace {

using namespace journal;

// ---- the chain

struct Edge {
    Name before{};
    Applied applied;
};
using Edges = std::unordered_map<Name, Edge, cluster::HashName>;  // by the lineage after it

// Reads one journal into the chain's views and all edges.
class Tracing {
public:
    Tracing(CommittedChain& chain, Edges& edges) : chain_(chain), edges_(edges) {}

    void read(const Begun& begun) {
        chain_.threads.insert(begun.threads);
        placed_ = false;
    }
    void read(const Adopted& adopted) {
        const auto [at, added] = chain_.views.try_emplace(adopted.view->name, adopted.view);
        if (!added && !at->second->redo_known) at->second = adopted.view;
    }
    void read(const Synced& synced) { place(synced.applied, synced.lineage); }
    void read(const Restored& restored) { place(restored.applied, restored.lineage); }
    void read(const Applied& applied) {
        if (!placed_ || applied_ != applied.record.step) {
            broken_ = applied.record.step;
        } else {
            edges_.try_emplace(applied.lineage, Edge{.before = lineage_, .applied = applied});
        }
        place(applied.record.step + 1, applied.lineage);
    }
    template <class T>
    void read(const T&) {}

    [[nodiscard]] Result<void> sound() const {
        if (!broken_) return {};
        return Error{"a journal says nothing of what came before step " + std::to_string(*broken_) +
                     "; chaos journal check may know more"};
    }
    [[nodiscard]] std::uint64_t applied() const { return applied_; }
    [[nodiscard]] const Name& lineage() const { return lineage_; }

private:
    void place(std::uint64_t applied, const Name& lineage) {
        placed_ = true;
        applied_ = applied;
        lineage_ = lineage;
    }

    CommittedChain& chain_;
    Edges& edges_;
    bool placed_ = false;
    std::uint64_t applied_ = 0;
    Name lineage_{};
    std::optional<std::uint64_t> broken_;
};

// ---- one step

class Replaying {
public:
    Replaying(const CommittedChain& chain, Learner& learner, const ResultShape& shape)
        : chain_(chain), learner_(learner), shape_(shape), result_(shape.floats()) {}

    // What was not the same; nullopt: nothing.
    [[nodiscard]] Result<std::optional<std::string>> repeat(const Applied& applied) {
        const state::StepRecord& record = applied.record;
        CHAOS_CHECK(prepare(record));
        const std::string step = "step " + std::to_string(record.step) + " under " + cluster::label_of(*view_);
        CHAOS_CHECK(contribute(record.step));
        collective::sum_in_order(order_, parts_, result_);
        const state::ResultDigest digest = state::digest_result(result_, shape_.gradient);
        if (digest.hash != record.result_hash) return std::optional(step + " gives another result than the journal's");
        if (learner_.apply(record.step, *view_, result_, digest) != applied.lineage)
            return std::optional(step + " gives the same result, but leads to another lineage than the journal's");
        return std::optional<std::string>();
    }

private:
    Result<void> prepare(const state::StepRecord& record) {
        if (view_ == nullptr || view_->name != record.view) {
            const auto known = chain_.views.find(record.view);
            if (known == chain_.views.end())
                return Error{"step " + std::to_string(record.step) + " was committed under view " +
                             cluster::brief(record.view) + ", which no journal holds; give those of more nodes"};
            view_ = known->second;
            CHAOS_TRY(const GradientPlan made, gradient_plan_of(*view_, shape_));
            CHAOS_TRY(order_, collective::sum_order_of(made.plan, made.members, made.options));
            members_ = made.members;
            parts_.resize(members_.size(), std::vector<float>(result_.size()));
        }
        if (record.step == view_->first_step && view_->settlement && !view_->redo_known)
            return Error{"who computed what of step " + std::to_string(record.step) + " under " +
                         cluster::label_of(*view_) + " is not known to a node that joined later; give the journal of " +
                         "one that was there"};
        return {};
    }

    Result<void> contribute(std::uint64_t step) {
        for (std::vector<float>& part : parts_) std::ranges::fill(part, 0.0F);
        for (const cluster::Share& share : cluster::shares_of(*view_, step)) {
            const auto member = std::ranges::find(members_, share.node);
            CHAOS_ASSERT(member != members_.end());
            const Learner::Task task{
                .step = step, .view = view_, .self = share.node, .first = true, .more = share.ranges};
            CHAOS_CHECK(learner_.compute(task, parts_[static_cast<std::size_t>(member - members_.begin())]));
        }
        return {};
    }

    const CommittedChain& chain_;
    Learner& learner_;
    ResultShape shape_;
    ViewPtr view_;
    std::vector<NodeId> members_;
    collective::SumOrder order_;
    std::vector<std::vector<float>> parts_;
    std::vector<float> result_;
};

bool was_skipped(const Applied& applied) {
    return applied.record.scalars.clip_scale == 0.0;
}

}  // namespace

Result<CommittedChain> chain_of(std::span<const std::vector<TimedEntry>> journals) {
    CommittedChain chain;
    Edges edges;
    std::uint64_t applied = 0;
    for (const std::vector<TimedEntry>& entries : journals) {
        Tracing tracing(chain, edges);
        for (const TimedEntry& entry : entries) std::visit([&](const auto& what) { tracing.read(what); }, entry.entry);
        CHAOS_CHECK(tracing.sound());
        if (&entries != journals.data()) continue;
        applied = tracing.applied();
        chain.lineage = tracing.lineage();
    }
    for (auto edge = edges.find(chain.lineage); edge != edges.end() && applied > 0; edge = edges.find(chain.lineage)) {
        if (edge->second.applied.record.step + 1 != applied)
            return Error{"the journals' steps do not follow each other; chaos journal check may know more"};
        --applied;
        chain.lineage = edge->second.before;
        chain.steps.push_back(edge->second.applied);
    }
    std::ranges::reverse(chain.steps);
    chain.first_step = applied;
    return chain;
}

Result<ReplayReport> replay(const CommittedChain& chain, const ReplayStart& start, Learner& learner,
                            const ResultShape& shape, const ReplayCallbacks& callbacks) {
    if (start.applied < chain.first_step)
        return Error{"the journal begins at step " + std::to_string(chain.first_step) +
                     ": replay the journal of a node that was there from the beginning, or give --from CHECKPOINT"};
    const std::uint64_t done = start.applied - chain.first_step;
    if (done > chain.steps.size())
        return Error{"the journal ends after " + std::to_string(chain.first_step + chain.steps.size()) +
                     " steps, before the " + std::to_string(start.applied) + " of the state to begin with"};
    const Name& lineage = done == 0 ? chain.lineage : chain.steps[done - 1].lineage;
    if (lineage != start.lineage)
        return Error{"the state to begin with, of lineage " + cluster::brief(start.lineage) +
                     ", is not the one that the journal goes on from, of lineage " + cluster::brief(lineage)};
    ReplayReport report;
    report.first_step = start.applied;
    report.lineage = start.lineage;
    Replaying replaying(chain, learner, shape);
    for (const Applied& applied : std::span(chain.steps).subspan(done)) {
        if (was_skipped(applied)) {
            if (state::extend_lineage(report.lineage, applied.record) != applied.lineage) {
                report.difference = "step " + std::to_string(applied.record.step) +
                                    ", whose update was skipped, leads to another lineage than the journal's";
                return report;
            }
            ++report.skipped;
            report.lineage = applied.lineage;
            callbacks.skipped(applied);
            continue;
        }
        CHAOS_TRY(report.difference, replaying.repeat(applied));
        if (report.difference) return report;
        ++report.steps;
        report.lineage = applied.lineage;
        callbacks.same(applied);
    }
    return report;
}

}  // namespace chaos::elastic
