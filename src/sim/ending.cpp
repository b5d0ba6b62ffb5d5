// World: how long it may take after the last fault until all train together again, and whether they do.
#include "sim/world.h"

#include "cluster/compose.h"
#include "cluster/trust.h"

#include <algorithm>
#include <set>

namespace chaos::sim {

using cluster::ViewPtr;

namespace {

constexpr Time patience = 120 * second;  // after the last fault, until all train together
constexpr std::uint64_t steps_to_see = 3;

}  // namespace

// Whether the others still hang together, and could decide by themselves.
bool World::leaves_quorum(const Node& node) {
    if (!node.running() || !node.member().view()) return false;
    const ViewPtr view = node.member().view();
    std::vector<cluster::NodeId> others;
    for (const cluster::MemberInfo& member : view->members)
        if (member.id.node != node.self()) others.push_back(member.id.node);
    return cluster::is_quorum(*view, others) && cluster::cut_off_by(*view, node.self()).empty();
}

// I3 to the letter, where one failure is all that happens: detection, two round trips and the cost of a step.
void World::check_single(Host host) {
    const auto failures = std::count_if(setup_.faults.begin(), setup_.faults.end(),
                                        [](const Fault& fault) { return fault.kind != FaultKind::join; });
    if (setup_.scenario != "single" || failures != 1) return;
    // Who was hit comes back as a newcomer, and who had just come in has no step to go on with.
    constexpr std::uint32_t settled_commits = 3;
    if (struck_at_ == 0) {
        if (++commits_[host] > settled_commits) slowest_step_ = std::max(slowest_step_, now_ - last_commit_[host]);
        return;
    }
    if (!quorum_left_ || host == struck_ || commits_[host] <= settled_commits || last_commit_[host] > struck_at_)
        return;
    const ViewPtr view = nodes_[host]->member().view();
    const cluster::Options& options = setup_.options;
    const Time round_trip =
        2 * (cluster::eccentricity(*view, nodes_[host]->self()) + setup_.paths.delay_max + setup_.paths.jitter);
    // The clocks of two nodes differ, and heartbeats come in their own rhythm.
    Time bound = options.detect + 2 * options.heartbeat + 2 * round_trip + 2 * slowest_step_ + 100 * millisecond;
    if (view->is_fork()) bound += options.fork_after + options.resend + 2 * options.heartbeat;
    if (now_ - struck_at_ > bound)
        invariants_.fail(host, "I3: goes on " + std::to_string((now_ - struck_at_) / millisecond) +
                                   " ms after the failure, but " + std::to_string(bound / millisecond) +
                                   " ms are allowed");
}

// Whether a node is where too few are left to decide, so that it must wait its time before it goes on without them; or
// where all were down, and some who do not come back might have newer checkpoints.
bool World::somebody_must_wait() const {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
        if (!node->running() || !node->member().view()) return false;
        const ViewPtr view = node->member().view();
        std::vector<cluster::NodeId> voters;
        bool somebody_runs = false;
        bool all_here = true;
        for (const cluster::MemberInfo& member : view->members) {
            const Node& other = *nodes_[host_of(member.id.node)];
            const bool runs = other.running() && other.member().id() == member.id;
            const bool here = runs || (other.running() && other.member().role() == cluster::Role::returning);
            somebody_runs = somebody_runs || runs;
            all_here = all_here && here;
            if (here) voters.push_back(member.id.node);
        }
        if (node->member().role() == cluster::Role::returning && !somebody_runs && !all_here) return true;
        return !setup_.strict && !cluster::is_quorum(*view, voters);  // under strict there is nothing to wait for
    });
}

// I3 for whatever happened. What one change may take in the worst case that is no fault of the protocol's:
//   twice the detection    of a silent death, and of one that the first attempt to settle it met with
//   six round trips        a flush, two ballots, and their spreading, over paths of several hops
//   retries                of what was lost when the connection broke: dials, requests, proposals
//   two steps              as slow as a single node is alone; the one in flight may be a slow node's
// and the time that a side without a quorum waits. To train together again, those who were thrown out must come in as
// newcomers: find a sponsor, after one that went away; pull the state; be let in by two more changes.
void World::allow_recovery() {
    const cluster::Options& options = setup_.options;
    constexpr Time hops = 4;
    const Time round_trip = 2 * hops * (setup_.paths.delay_max + setup_.paths.jitter);
    const std::uint32_t slowest = *std::min_element(setup_.speeds.begin(), setup_.speeds.end());
    const auto carried = [&](std::uint64_t bytes) { return static_cast<Time>(bytes * second / setup_.paths.rate_min); };
    const Time step = static_cast<Time>(setup_.batch) * second / slowest + 2 * hops * carried(toy_.result_bytes);
    const Time change = 2 * (options.detect + options.heartbeat) + 6 * round_trip + 2 * options.resend + step +
                        static_cast<Time>(slowest_at_end_) * step;
    Time waiting = somebody_must_wait() ? std::max(options.fork_after, options.found_after) : 0;
    waiting += static_cast<Time>(liars_about_steps()) * (8 * options.detect + change);
    statistics_.resume_allowed = waiting + change;
    const Time pull = setup_.hosts * carried(toy_.state_bytes);
    statistics_.recovery_allowed =
        statistics_.resume_allowed + 20 * options.resend + pull + change + static_cast<Time>(steps_to_see) * step;
}

// A result that only a liar says it has is waited for, until those who wait give up and settle anew without the liar.
std::size_t World::liars_about_steps() const {
    std::set<Host> liars;
    for (const Fault& fault : setup_.faults)
        if (fault.kind == FaultKind::lie && (fault.value & lie_reports) != 0) liars.insert(fault.host);
    return liars.size();
}

void World::check_recovered() {
    if (statistics_.recovered > statistics_.recovery_allowed)
        invariants_.fail("I3: all train together " + std::to_string(statistics_.recovered / millisecond) +
                         " ms after the last fault, but " + std::to_string(statistics_.recovery_allowed / millisecond) +
                         " ms are allowed");
}

void World::check_patience() {
    const Time passed = now_ - setup_.quiet_at;
    if (statistics_.resumed == 0 ? passed > statistics_.resume_allowed
                                 : statistics_.resumed > statistics_.resume_allowed)
        invariants_.fail("I3: no step was committed in the " + std::to_string(passed / millisecond) +
                         " ms after the last fault; " + std::to_string(statistics_.resume_allowed / millisecond) +
                         " ms are allowed");
    if (passed >= patience) explain_stuck();
}

// ---- the end

// Whether too few seats of the youngest view can ever vote again. A seat is lost with the process, unless the disk
// with its vote is there when the node restarts.
bool World::quorum_is_gone() const {
    const cluster::ViewPtr& view = invariants_.youngest();
    if (view == nullptr) return true;
    std::vector<cluster::NodeId> voters;
    for (const cluster::MemberInfo& member : view->members) {
        if (member.standing != cluster::Standing::active) continue;
        const Node& node = *nodes_[host_of(member.id.node)];
        if (node.running() && member.id.incarnation / incarnations_per_life >= node.blank_life)
            voters.push_back(member.id.node);
    }
    return !cluster::is_quorum(*view, voters);
}

// An impostor, or kept out by a view that others train under.
bool World::is_barred(Host host) const {
    if (setup_.impostors[host] != Impostor::none) return true;
    cluster::Vouched vouched{.institution = institution_root(setup_.institutions[host])};
    if (setup_.tokens[host] != 0) vouched.token = token_of(setup_.seed, setup_.tokens[host]);
    const Node& node = *nodes_[host];
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& other) {
        if (!other->running() || other.get() == &node || other->member().role() != cluster::Role::active) return false;
        return !cluster::admits(*other->member().view(), node.self(), vouched);
    });
}

bool World::somebody_leaves() const {
    return std::any_of(nodes_.begin(), nodes_.end(),
                       [](const auto& node) { return node->running() && !node->finished && node->asked_to_leave; });
}

bool World::leavers_are_last() const {
    for (Host host = 0; host < nodes_.size(); ++host) {
        const Node& node = *nodes_[host];
        if (node.running() && !node.finished && !node.asked_to_leave && !is_barred(host)) return false;
    }
    return true;
}

// All who are not on their way out.
bool World::train_together() {
    const ViewPtr& youngest = invariants_.youngest();
    ViewPtr common;
    std::uint64_t least = ~std::uint64_t{0};
    std::uint64_t most = 0;
    bool one_view = true;
    for (Host host = 0; host < nodes_.size(); ++host) {
        const Node& node = *nodes_[host];
        if (!node.running() || node.finished) continue;
        if (node.asked_to_leave || is_barred(host)) continue;
        if (!youngest->institution_in(institution_root(setup_.institutions[host]))) continue;
        if (node.member().role() != cluster::Role::active) {
            together_ = false;
            return false;
        }
        const ViewPtr view = node.member().view();
        // Its neighbours saw both votes each time, and both are signed.
        constexpr std::uint32_t proofs_enough = 8;
        if (node.double_votes >= proofs_enough)
            invariants_.fail(host, "voted twice in one ballot, and was not expelled");
        if (common && common->name != view->name) one_view = false;
        common = view;
        const std::uint64_t applied = node.trainer().store().applied();
        least = std::min(least, applied);
        most = std::max(most, applied);
    }
    if (!common) return leavers_are_last();  // they cannot leave, but may simply stop
    if (!together_) {
        together_ = true;
        steps_wanted_ = most + steps_to_see;
    }
    return one_view && least >= steps_wanted_;
}

void World::explain_stuck() {
    constexpr std::size_t most_told = 10;
    std::string text = "stuck: " + std::to_string(patience / second) + " s after the last fault not all train together";
    std::vector<std::string> waiting;
    std::vector<std::string> training;
    for (Host host = 0; host < nodes_.size(); ++host) {
        const Node& node = *nodes_[host];
        if (!node.running() || node.finished) continue;
        const ViewPtr view = node.member().view();
        const Trainer& trainer = node.trainer();
        const bool trains = !node.asked_to_leave && node.member().role() == cluster::Role::active &&
                            trainer.store().applied() >= steps_wanted_;
        (trains ? training : waiting)
            .push_back("\n  n" + std::to_string(host) + " " + cluster::brief(node.self()) + ": " + node.member().why() +
                       "; " + std::to_string(trainer.store().applied()) + " steps applied, " +
                       (view ? "view " + std::to_string(view->epoch) + " " + cluster::brief(view->name) : "no view") +
                       (node.asked_to_leave ? ", was asked to leave" : "") +
                       (trainer.exchanging() ? ", in an exchange" : "") + (trainer.computing() ? ", computes" : ""));
    }
    waiting.insert(waiting.end(), training.begin(), training.end());
    for (std::size_t i = 0; i < std::min(waiting.size(), most_told); ++i) text += waiting[i];
    if (waiting.size() > most_told) text += "\n  and " + std::to_string(waiting.size() - most_told) + " others";
    invariants_.fail(text);
}

}  // namespace chaos::sim
