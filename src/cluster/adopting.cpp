// Adopting a decided view: what it means for this node.
#include "base/planted.h"
#include "cluster/state.h"
#include "cluster/trust.h"

#include <algorithm>

namespace chaos::cluster {

bool Member::State::on_decide(const DecidePtr& decide) {
    const Delta& delta = decide->delta;
    if (delta.parent != tip().name) {
        if (CHAOS_PLANTED(stale_epoch_accepted) && delta.epoch <= tip().epoch) {
            Decide again = *decide;
            again.delta.parent = tip().name;
            again.delta.epoch = tip().epoch + 1;
            return adopt(std::make_shared<Decide>(std::move(again)));
        }
        ++counters.stale;
        contradict(*decide);
        return false;
    }
    if (!tip().is_active(decide->stamp.author.node) || decide->stamp.author.node != decide->ballot.proposer) {
        ++counters.refused;
        return false;
    }
    if (delta.fork != Fork::none) {
        // A fork that leaves us out concerns us only if we cannot go on ourselves.
        const bool ours =
            std::ranges::none_of(delta.removals, [&](const Removal& removal) { return removal.node == self(); });
        const bool again =
            std::ranges::any_of(delta.additions, [&](const Newcomer& added) { return added.info.id.node == self(); });
        if (!ours && !again && role == Role::active && is_quorum(tip(), reachable_from(tip(), self(), down_links()))) {
            lose_link(decide->stamp.author.node, Reason::silent);
            return false;
        }
    }
    return adopt(decide);
}

// Of the epoch of this decision, its author may have told us another.
void Member::State::contradict(const Decide& decide) {
    const DecidePtr known = line.decision(decide.delta.epoch);
    if (known && known->stamp.author == decide.stamp.author && known->delta.parent == decide.delta.parent &&
        known->delta != decide.delta)
        accuse(make_message(*known), make_message(decide));
}

// The view that `delta`, of this name, makes of the tip. Computed once, for the vote and for the decision.
Result<ViewPtr> Member::State::view_after(const Delta& delta, const Name& name) {
    if (voted && voted->name == name) return voted;
    if (options.views)
        if (ViewPtr known = options.views->find(name)) return known;
    if (const Result<void> proven = prove_additions(tip(), delta, pending, signer); !proven) return proven.error();
    const ViewPtr governing = line.governing(delta.first_step);
    Result<ViewPtr> next = apply(tip(), governing.get(), delta);
    if (next && options.views) options.views->add(*next);
    return next;
}

bool Member::State::adopt(const DecidePtr& decision) {
    const Delta& delta = decision->delta;
    const Result<ViewPtr> following = view_after(delta, name_of(delta));
    if (!following) {
        note("cannot follow a decision of " + brief(decision->stamp.author.node) + ": " + following.error().message);
        ++counters.refused;
        return false;
    }
    const ViewPtr& next = *following;
    for (const Removal& removal : delta.removals) {
        const MemberInfo* member = tip().find(removal.node);
        // Those who did not mean to go may be back one day, or lead a line of their own.
        const bool against_its_will = removal.reason == Reason::failed || removal.reason == Reason::restarted ||
                                      removal.reason == Reason::cut_off;
        if (!against_its_will || removal.node == self()) continue;
        remember_lost({.node = removal.node, .address = member->address});
    }
    remember_given_up(delta);
    if (delta.settlement && delta.settlement->founded) say_what_is_lost(*delta.settlement);
    line.append(next, decision, applied);
    forget_ballots();
    // Votes may still be on their way to a proposer that had enough without them.
    std::erase_if(votes_seen, [&](const auto& entry) { return entry.first.first != next->parent; });
    act(Adopted{next});
    persist();
    after_adoption();
    return true;
}

// All were down: whatever was learnt after the checkpoint that they begin from is lost.
void Member::State::say_what_is_lost(const Settlement& settlement) {
    std::string text = "all were down; training goes on from the checkpoint of step " +
                       std::to_string(settlement.applied) + ", and all later steps are lost";
    if (settlement.lineage == Name{})
        text = "all were down, and nobody who came back has a checkpoint: all that was learnt is lost";
    const std::uint64_t reached = std::max(tip().first_step, applied);
    if (reached > settlement.applied) text += "; they were at step " + std::to_string(reached) + " at least";
    note(std::move(text));
}

// What the new tip means for this node.
void Member::State::after_adoption() {
    const View& view = tip();
    tip_since = now;
    const MemberInfo* me = view.find(self());
    const bool listed = me != nullptr && me->id == identity.member;
    prune_pending();
    std::erase_if(given_up, [&](NodeId peer) { return view.find(peer) == nullptr; });
    mind_link_wishes();
    std::erase_if(missing_since, [&](const auto& entry) { return view.find(entry.first) == nullptr; });

    // Newcomers among our neighbours learn the view from us.
    for (const auto& [peer, connection] : connections) {
        const MemberInfo* member = view.find(peer);
        if (member != nullptr && member->standing == Standing::syncing && connection.role == Role::joining &&
            member->id == connection.member && role == Role::active)
            send_whole(peer);
    }
    for (auto& [peer, connection] : connections)
        if (connection.role == Role::joining && view.has(connection.member)) connection.role = Role::syncing;

    if (role == Role::returning && !listed) {
        if (me == nullptr) {
            std::vector<Candidate> contacts;
            contacts.reserve(view.members.size());
            for (const MemberInfo& member : view.members)
                contacts.push_back({.node = member.id.node, .address = member.address});
            note("the cluster went on without this node's earlier life; it joins anew");
            past = std::move(line);
            line.clear();
            forget_ballots();
            pending.clear();
            start_joining(std::move(contacts));
        }
        return recheck_early();
    }
    if (!listed) {
        if (role == Role::joining) return;
        const bool runs_on = role == Role::active && !view.settlement;
        if (!runs_on) {
            return exclude(why_without_us(), barred(view));
        }
        maybe_start_step();  // its last steps, up to where the view begins
        return;
    }
    const bool was = role == Role::active;
    if (me->standing == Standing::syncing) {
        const bool fresh = role != Role::syncing;
        role = Role::syncing;
        if (view.settlement && was) {
            stopped = taking = false;
            running_view = {};
        }
        if (fresh) act(BeginSync{line.tip()});
        return recheck_early();
    }
    role = Role::active;
    if (view.settlement && view.settlement->founded) {
        applied = stable = started = view.settlement->applied;
        stopped = taking = false;
        running_view = {};
        act(Restore{.applied = applied, .lineage = view.settlement->lineage});
    } else if (!was) {
        started = std::max(started, applied);
        catching_up_since = now;
        running_view = {};
        stopped = taking = false;
        act(Activated{.first_step = me->first_step, .view = line.tip()});
    } else if (view.settlement) {
        const Settlement& settlement = *view.settlement;
        if (running_view != Name{} && !stopped) act(StopStep{});
        stopped = taking = false;
        running_view = {};
        if (applied + 1 == settlement.applied) {
            taking = true;
            catching_up_since = now;
            act(TakeResult{.step = applied, .holders = settlement.holders});
        } else if (applied != settlement.applied && !CHAOS_PLANTED(flush_skipped) && !CHAOS_PLANTED(holder_ignored)) {
            return exclude("this node's steps do not fit those of view " + brief(view.name), false);
        }
    }
    maybe_start_step();
    recheck_early();
    consider_proposing();
}

// Whoever is expelled shall know why.
std::string Member::State::why_without_us() const {
    std::string why = "view " + brief(tip().name) + " goes on without this node";
    if (!tip().revokes(self(), {})) return why;
    // Others may have been decided since.
    std::uint64_t epoch = tip().epoch;
    while (const DecidePtr decision = line.decision(epoch--))
        for (const Removal& removal : decision->delta.removals)
            if (removal.node == self()) return why + ": " + std::string(words_of(removal.reason));
    return why;
}

void Member::State::recheck_early() {
    std::vector<Received> waiting = std::move(early);
    early.clear();
    for (const Received& entry : waiting) {
        if (line.empty()) return;
        if (std::holds_alternative<Prepare>(entry.message->body)) {
            if (on_prepare(entry.from, entry.message)) flood(entry.message, entry.from);
        } else if (on_accept(entry.from, entry.message)) {
            flood(entry.message, entry.from);
        }
    }
}

// What was promised and proposed was about what follows the tip; now the tip is another.
void Member::State::forget_ballots() {
    acceptor = {};
    accepts_seen.clear();
    voted.reset();
    proposal.reset();
    round_zero_used = false;
    highest_round = 0;
    propose_at = without_quorum_since = founding_since = never;
    founding_waits.clear();
}

}  // namespace chaos::cluster
