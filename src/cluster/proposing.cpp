// Proposing what follows the tip: whose turn it is, what is proposed, and when it is decided (see voting.cpp).
#include "base/planted.h"
#include "cluster/state.h"

#include <algorithm>
#include <limits>

namespace chaos::cluster {

std::vector<LinkId> Member::State::down_links() const {
    std::vector<LinkId> down;
    for (const auto& [key, request] : pending)
        if (key.kind == RequestKind::link_down) down.push_back(key.link);
    if (proposal)
        for (const auto& [node, promise] : proposal->promises)
            for (const DownLink& link : promise.report.down) down.push_back(link_between(node, link.peer));
    std::ranges::sort(down);
    down.erase(std::unique(down.begin(), down.end()), down.end());
    return down;
}

// Is there a reason for a new view, and when is it our turn to propose it? News about who can be reached may bring our
// turn forward: who waits for somebody that turns out to be dead waits no longer.
void Member::State::consider_proposing() {
    if (line.empty() || proposal || !votes()) return;
    if (propose_at != never) {
        if (awaits_seniors || (awaited_proposer && !reaches(*awaited_proposer)))
            propose_at = std::min(propose_at, turn());
        return;
    }
    bool needed = stopped || may_found();
    for (auto entry = pending.begin(); !needed && entry != pending.end(); ++entry) {
        const Fitness::Kind kind = fitness(tip(), entry->second, nullptr).kind;
        needed = kind == Fitness::Kind::interrupts ||
                 (kind == Fitness::Kind::fits && ripe(tip(), pending, entry->first)) ||
                 (kind == Fitness::Kind::may_wait && waited_long());
    }
    if (!needed) return;
    propose_at = turn();
    awaits_seniors = true;
    awaited_proposer.reset();
}

// By links of the view that nobody said are down.
bool Member::State::reaches(NodeId node) const {
    const std::vector<LinkId> down = down_links();
    return std::ranges::binary_search(reachable_from(tip(), self(), down), node);
}

Nanoseconds Member::State::turn() const {
    if (tip().senior == self() && role == Role::active) return now;
    // Those who stand longer and can be reached go first.
    const std::vector<LinkId> down = down_links();
    const std::vector<NodeId> reached = reachable_from(tip(), self(), down);
    const MemberInfo* me = tip().find(self());
    Nanoseconds rank = 0;
    for (const MemberInfo& member : tip().members) {
        if (member.standing != Standing::active || member.id.node == self()) continue;
        if (std::pair(member.since_epoch, member.id.node) > std::pair(me->since_epoch, self())) continue;
        if (std::ranges::binary_search(reached, member.id.node)) ++rank;
    }
    const Nanoseconds at = rank == 0 ? now : now + rank * (2 * spread() + options.resend / 2);
    // A node that came back first looks for those who still run.
    return role == Role::returning ? at + 2 * options.detect : at;
}

// Another proposer is given time first. Where it is cut off meanwhile, no longer; but what comes from one whom no link
// of the view reaches came all the same, and two who do not give each other time never end.
void Member::State::propose_after(Nanoseconds wait, std::optional<NodeId> proposer) {
    // Where only we were told to do without a quorum, the others ask for one again and again: our turn comes all the
    // same.
    propose_at = forced() ? std::min(propose_at, now + wait) : now + wait;
    awaits_seniors = false;
    awaited_proposer = proposer && reaches(*proposer) ? proposer : std::nullopt;
}

std::vector<NodeId> Member::State::patient() const {
    std::vector<NodeId> result;
    for (const auto& [key, since] : pending_since)
        if (key.kind == RequestKind::leave && now - since < 10 * options.detect) result.push_back(key.subject.node);
    return result;
}

// The step from which a planned change may hold: late enough that everybody hears of it before beginning that step.
std::uint64_t Member::State::planned_step(std::uint64_t begun) const {
    std::uint64_t margin = 1;
    if (step_time > 0) margin += static_cast<std::uint64_t>(std::min<Nanoseconds>(3 * spread() / step_time, 1000));
    return std::max(begun + margin, tip().first_step);
}

// A planned change of everything that fits, and fits together; what does not is refused by name.
std::optional<Delta> Member::State::planned_change(std::uint64_t begun) {
    const std::uint64_t first_step = planned_step(begun);
    std::optional<Composed> composed = compose_planned(tip(), pending, first_step, patient());
    if (composed && !view_after(composed->delta, name_of(composed->delta))) {
        Pending together;
        for (const auto& [key, request] : pending) {
            together.emplace(key, request);
            composed = compose_planned(tip(), together, first_step, patient());
            if (!composed) continue;
            if (const auto next = view_after(composed->delta, name_of(composed->delta)); !next) {
                together.erase(key);
                note("refused a request of " + brief(request.stamp.author.node) + ": " + next.error().message,
                     About::refused);
                ++counters.refused;
            }
        }
        pending = std::move(together);
        composed = compose_planned(tip(), pending, first_step, patient());
    }
    if (!composed) return std::nullopt;
    for (std::string& text : composed->notes) note(std::move(text));
    return std::move(composed->delta);
}

// Those who still run find the old seat of one who came back empty; only where nobody does is it ours to propose.
bool Member::State::may_found() const {
    return role == Role::returning && (options.may_found || forced()) && !a_member_runs();
}

void Member::State::propose() {
    if (line.empty() || proposal || !votes() || (role == Role::returning && !may_found())) return;
    bool flush = stopped || role == Role::returning;
    for (const auto& [key, request] : pending)
        if (fitness(tip(), request, nullptr).kind == Fitness::Kind::interrupts) flush = true;
    if (!flush && tip().senior == self() && acceptor.promised == Ballot{} && !acceptor.accepted && !round_zero_used) {
        const std::optional<Delta> delta = planned_change(started);
        if (!delta) return;
        round_zero_used = true;
        proposal.emplace();
        proposal->ballot = {.round = 0, .proposer = self()};
        return propose_value(*delta);
    }
    prepare(flush);
}

void Member::State::prepare(bool flush) {
    proposal.emplace();
    proposal->ballot = {.round = std::max(highest_round, acceptor.promised.round) + 1, .proposer = self()};
    highest_round = proposal->ballot.round;
    proposal->flush = flush;
    proposal->deadline = now + options.detect + 4 * spread() + options.resend;
    repeat_proposal();
}

void Member::State::propose_value(const Delta& delta) {
    proposal->accepting = true;
    proposal->delta = delta;
    proposal->value = name_of(delta);
    proposal->votes.clear();
    proposal->deadline = now + options.detect + 4 * spread() + 2 * options.resend;
    repeat_proposal();
}

// Sends what is out, for the first time or again.
void Member::State::repeat_proposal() {
    if (proposal->accepting && proposal->attempt > 0 && now >= proposal->deadline) {
        // Too few votes came. Somebody may have died: ask who is there.
        return drop_proposal(0);
    }
    ++proposal->attempt;
    proposal->resend_at = now + options.resend + 2 * spread();
    MessagePtr message;
    if (proposal->accepting) {
        Accept accept;
        accept.ballot = proposal->ballot;
        accept.delta = proposal->delta;
        message = make_signed(std::move(accept), identity.member, proposal->attempt, signer);
    } else {
        Prepare out;
        out.parent = tip().name;
        out.epoch = tip().epoch + 1;
        out.ballot = proposal->ballot;
        out.flush = proposal->flush;
        message = make_signed(out, identity.member, proposal->attempt, signer);
    }
    proposal->asked.insert(message->hash);
    on_flooded(self(), message);
    if (proposal) advance();
}

void Member::State::drop_proposal(Nanoseconds retry_after) {
    proposal.reset();
    propose_after(retry_after, {});
}

void Member::State::on_promise(const Promise& promise) {
    if (proposal->accepting) return;
    if (promise.ballot > proposal->ballot) {
        highest_round = std::max(highest_round, promise.ballot.round);
        // Another proposer is ahead; leave it the time to finish.
        return drop_proposal(2 * spread() + options.resend);
    }
    if (promise.ballot != proposal->ballot) return;
    if (!plausible(promise)) {
        ++counters.refused;
        return note("ignores a report of " + brief(promise.stamp.author.node) + ": it cannot be true");
    }
    proposal->promises.insert_or_assign(promise.stamp.author.node, promise);
    // Looking at everything for every report would cost the square of the cluster's size.
    proposal->awaited.erase(promise.stamp.author.node);
    if (proposal->awaited.empty() || !promise.report.down.empty()) advance();
}

void Member::State::on_accepted(const Accepted& accepted) {
    if (!proposal->accepting || accepted.ballot != proposal->ballot) return;
    if (accepted.value == Name{}) {
        highest_round = std::max(highest_round, accepted.promised.round);
        if (accepted.promised > proposal->ballot) return drop_proposal(2 * spread() + options.resend);
        // The change comes too early for this one. A quorum of others is still enough: then nobody completes that step
        // under the old view. If too few are left for a quorum, the step is interrupted.
        proposal->declined.insert(accepted.stamp.author.node);
        return advance();
    }
    if (accepted.value != proposal->value) return;
    proposal->votes.insert(accepted.stamp.author.node);
    hear_claims(accepted);
    advance();
}

bool Member::State::may_fork(const std::set<NodeId>& missing) {
    if (tip().strict) return forced();
    if (CHAOS_PLANTED(fork_without_waiting)) return true;
    if (without_quorum_since == never) without_quorum_since = now;
    // Closed by their hosts: the processes are gone, there is nothing to wait for.
    std::map<std::pair<NodeId, NodeId>, Reason> said;  // by whom, about whom
    for (const auto& [key, request] : pending) {
        const NodeId author = request.stamp.author.node;
        if (key.kind == RequestKind::link_down) said[{author, key.link.other(author)}] = request.reason;
    }
    for (const auto& [node, promise] : proposal->promises)
        for (const DownLink& link : promise.report.down) said[{node, link.peer}] = link.reason;
    bool all_closed = role == Role::active;
    for (const NodeId node : missing) {
        bool seen_closed = false;
        for (const NodeId peer : tip().neighbours(node)) {
            if (missing.contains(peer)) continue;
            const auto reason = said.find({peer, node});
            if (reason != said.end() && reason->second == Reason::closed) {
                seen_closed = true;
            } else if (proposal->promises.contains(peer)) {
                all_closed = false;
            }
        }
        if (!seen_closed) all_closed = false;
    }
    if (all_closed) return true;
    const Nanoseconds patience = role == Role::returning ? options.found_after : options.fork_after;
    return now - without_quorum_since >= patience;
}

// All were down, and some are missing, who may have newer checkpoints than anybody here: the view that all were in says
// that more was reached. They are waited for as long as for a quorum. And for ever where nobody here has a checkpoint:
// what was learnt must not give way to a blank state.
bool Member::State::may_found_from(const Settlement& settlement, Fork fork, std::set<NodeId> missing) {
    std::erase_if(missing, [&](NodeId node) {
        // It has lost what it knew of the cluster, and with it its seat.
        const auto at = connections.find(node);
        return at != connections.end() && at->second.greeted && at->second.role == Role::joining;
    });
    // A person may say that they will not come.
    if (missing.empty() || forced() || settlement.applied >= tip().first_step) return true;
    if (founding_since == never) founding_since = now;
    const bool blank = settlement.lineage == Name{};
    // Who forks has had that patience (may_fork).
    if (!blank && (fork != Fork::none || now - founding_since >= options.found_after)) return true;
    std::string who;
    for (const NodeId node : missing) who += (who.empty() ? "" : ", ") + brief(node);
    std::string waits = "waits for " + who + ": view " + brief(tip().name) + " trained from step " +
                        std::to_string(tip().first_step) + " on, and ";
    waits += blank ? "nobody who came back has a checkpoint; bring them back, or train from the beginning in another "
                     "folder"
                   : "the newest checkpoint of those who came back is of step " + std::to_string(settlement.applied) +
                         "; goes on from that after " + std::to_string(options.found_after / second) + " s";
    if (founding_waits != waits) note(waits);
    founding_waits = std::move(waits);
    return false;
}

// Looks at what has come in, and goes on if it is enough.
void Member::State::advance() {
    if (!proposal) return;
    if (proposal->accepting) return advance_votes();
    if (proposal->flush) return advance_flush();
    advance_plan();
}

void Member::State::advance_votes() {
    const View& view = tip();
    if (2 * proposal->votes.size() < view.active_count() && proposal->delta.fork == Fork::none &&
        proposal->declined.empty() && !CHAOS_PLANTED(no_quorum))
        return;
    std::vector<NodeId> voters(proposal->votes.begin(), proposal->votes.end());
    bool enough = is_quorum(view, voters);
    if (proposal->delta.fork != Fork::none) {
        // Everybody who is to be in it.
        enough = std::ranges::all_of(view.members, [&](const MemberInfo& member) {
            const NodeId node = member.id.node;
            const bool removed = std::ranges::any_of(proposal->delta.removals,
                                                     [&](const Removal& removal) { return removal.node == node; });
            const bool again = std::ranges::any_of(proposal->delta.additions,
                                                   [&](const Newcomer& added) { return added.info.id.node == node; });
            if (member.standing != Standing::active || (removed && !again)) return true;
            return proposal->votes.contains(node);
        });
    }
    if (enough) return decide();
    std::vector<NodeId> willing;
    for (const MemberInfo& member : view.members)
        if (!proposal->declined.contains(member.id.node)) willing.push_back(member.id.node);
    if (!is_quorum(view, willing)) prepare(true);
}

// What a quorum may have voted for before: nothing else can be proposed then. Null: the choice is free.
const Vote* Member::State::voted_for() const {
    const Vote* chosen = nullptr;
    for (const auto& [node, promise] : proposal->promises)
        if (promise.accepted && (chosen == nullptr || promise.accepted->ballot > chosen->ballot))
            chosen = &*promise.accepted;
    if (chosen == nullptr || fits_our_steps(chosen->delta)) return chosen;
    // By a lie, perhaps. Those who did not vote for it may be enough to know that it was not decided.
    std::vector<NodeId> may_have_voted;
    for (const MemberInfo& member : tip().members) {
        const auto promise = proposal->promises.find(member.id.node);
        if (promise == proposal->promises.end() ||
            (promise->second.accepted && promise->second.accepted->ballot >= chosen->ballot))
            may_have_voted.push_back(member.id.node);
    }
    return is_quorum(tip(), may_have_voted) ? chosen : nullptr;
}

// A planned change: a quorum of promises is enough.
void Member::State::advance_plan() {
    std::vector<NodeId> voters;
    for (const auto& [node, promise] : proposal->promises) voters.push_back(node);
    if (!is_quorum(tip(), voters)) {
        if (now >= proposal->deadline) prepare(true);
        return;
    }
    std::uint64_t begun = started;
    bool somebody_stopped = false;
    for (const auto& [node, promise] : proposal->promises) {
        begun = std::max(begun, promise.report.started);
        somebody_stopped = somebody_stopped || promise.report.stopped;
    }
    if (const Vote* chosen = voted_for()) return propose_value(Delta(chosen->delta));
    if (somebody_stopped) return prepare(true);
    if (const std::optional<Delta> delta = planned_change(begun)) return propose_value(*delta);
    proposal.reset();
}

// Those who take part in every step are at most one step apart. Whoever says that it is further than most agree on
// lies.
void Member::State::drop_false_leaders(std::map<NodeId, Report>& reports) {
    std::map<std::uint64_t, std::size_t> at;  // how many have applied so many steps
    const auto keeps_up = [&](NodeId node, const Report& report) {
        return report.role == Role::active && tip().find(node)->first_step <= report.applied;
    };
    for (const auto& [node, report] : reports)
        if (keeps_up(node, report)) ++at[report.applied];
    std::uint64_t farthest = std::numeric_limits<std::uint64_t>::max();
    std::size_t most = 0;
    for (const auto& [steps, count] : at) {
        const auto before = steps > 0 ? at.find(steps - 1) : at.end();
        const std::size_t agree = count + (before == at.end() ? 0 : before->second);
        if (agree >= most) {
            most = agree;
            farthest = steps;
        }
    }
    std::erase_if(reports, [&](const auto& entry) {
        if (!keeps_up(entry.first, entry.second) || entry.second.applied <= farthest) return false;
        note("ignores a report of " + brief(entry.first) + ": nobody else has applied so many steps");
        ++counters.refused;
        return true;
    });
}

// What was reported; but where a result could not be taken from those who were said to hold it, they are no longer
// believed. It is not stable: those who are stuck lack it.
std::map<NodeId, Report> Member::State::believable_reports() {
    std::map<NodeId, Report> reports;
    for (const auto& [node, promise] : proposal->promises) reports.emplace(node, promise.report);
    drop_false_leaders(reports);
    const View& view = tip();
    if (!view.settlement || view.settlement->holders.empty()) return reports;
    const auto& holders = view.settlement->holders;
    const bool stuck =
        pending.contains({.kind = RequestKind::stuck, .subject = {}, .link = {}, .name = view.name, .author = {}});
    const bool taken = std::ranges::any_of(reports, [&](const auto& entry) {
        return entry.second.role == Role::active && entry.second.applied >= view.settlement->applied &&
               std::ranges::find(holders, entry.first) == holders.end();
    });
    if (!stuck || taken) return reports;
    for (const NodeId holder : holders) {
        if (reports.erase(holder) == 0) continue;
        note("no longer believes " + brief(holder) + ": it did not give the result that it said it has");
        ++counters.refused;
    }
    return reports;
}

// A flush: everybody that can be reached must have reported, or be given up.
void Member::State::advance_flush() {
    const View& view = tip();
    std::vector<NodeId> voters;
    for (const auto& [node, promise] : proposal->promises) voters.push_back(node);
    const bool quorum = is_quorum(view, voters);
    const std::vector<LinkId> down = down_links();
    const std::vector<NodeId> reached = reachable_from(view, self(), down);
    bool complete = true;
    proposal->awaited.clear();
    std::set<NodeId> missing;
    bool somebody_runs = false;
    for (const MemberInfo& member : view.members) {
        const NodeId node = member.id.node;
        if (member.standing != Standing::active) continue;
        const auto promise = proposal->promises.find(node);
        if (promise != proposal->promises.end()) {
            const bool runs = promise->second.report.role == Role::active;
            somebody_runs = somebody_runs || runs;
            // It is there, but no link of the view leads to it any more: it would be left out.
            if (runs && role == Role::active && !std::ranges::binary_search(reached, node)) missing.insert(node);
            continue;
        }
        missing.insert(node);
        if (role == Role::active && std::ranges::binary_search(reached, node)) {
            complete = false;
            proposal->awaited.insert(node);
        }
        if (role == Role::returning) complete = false;
    }
    if (CHAOS_PLANTED(flush_skipped) && quorum) complete = true;
    if (!complete && now < proposal->deadline) return;
    if (!quorum && !may_fork(missing)) return;
    const Fork fork = quorum ? Fork::none : view.strict ? Fork::forced : Fork::waited;
    if (quorum) without_quorum_since = never;
    if (role == Role::returning && somebody_runs) {
        // One who still runs settles this; we only have a vote.
        proposal.reset();
        return;
    }
    if (fork == Fork::none) {
        std::uint64_t farthest = 0;
        for (const auto& [node, promise] : proposal->promises)
            if (promise.report.role == Role::active) farthest = std::max(farthest, promise.report.applied);
        const Vote* chosen = voted_for();
        // A planned change that a quorum voted for keeps its first step from being completed under this view. If
        // somebody did complete it, there was no such quorum.
        if (chosen != nullptr && (chosen->delta.settlement || chosen->delta.first_step >= farthest))
            return propose_value(Delta(chosen->delta));
    }
    const Result<Delta> delta = compose_settlement(view, self(), believable_reports(), down, fork);
    if (!delta) {
        note("cannot settle: " + delta.error().message);
        return drop_proposal(options.resend);
    }
    const ViewPtr governing = line.governing(delta->first_step);
    if (const Result<ViewPtr> next = apply(view, governing.get(), *delta); !next) {
        note("cannot settle: " + next.error().message);
        return drop_proposal(options.resend);
    }
    if (role == Role::returning && !may_found_from(*delta->settlement, fork, std::move(missing))) return;
    propose_value(*delta);
}

void Member::State::decide() {
    Decide decision;
    decision.ballot = proposal->ballot;
    decision.delta = proposal->delta;
    const MessagePtr message = make_signed(std::move(decision), identity.member, proposal->attempt, signer);
    // Before adopting it: those whom it removes should hear of it too.
    seen.add(message->hash, self());
    flood(message, self());
    on_decide(DecidePtr(message, &std::get<Decide>(message->body)));
}

}  // namespace chaos::cluster
