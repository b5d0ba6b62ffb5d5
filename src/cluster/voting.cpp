// Voting on what follows the tip: promises, the flush, votes, and their way back to the proposer.
//
// One view is decided at a time, by ballots. A value that got a quorum of votes in some ballot is the only one that any
// later ballot can propose, because its proposer hears from a quorum first (Prepare, Promise). The longest-standing
// member may skip that in round 0, the lowest ballot of all: nothing can have been voted for before.
//
//   planned:       Accept ──► votes ──► Decide                                   one round trip and its spreading
//   interrupting:  Prepare(flush) ──► reports ──► Accept ──► votes ──► Decide    two
#include "base/planted.h"
#include "cluster/state.h"

#include <algorithm>

namespace chaos::cluster {

void Member::State::persist() {
    constexpr std::size_t ancestors_on_disk = 256;
    DiskRecord record{.view = line.tip(),
                      .ancestors = {},
                      .promised = acceptor.promised,
                      .accepted = acceptor.accepted,
                      .lost = {lost.begin(), lost.end()}};
    const std::vector<Ancestor>& all = line.ancestors();
    const std::size_t before = all.size() - 1;  // the last is the tip itself
    const std::size_t kept = std::min(before, ancestors_on_disk);
    record.ancestors.assign(all.begin() + static_cast<std::ptrdiff_t>(before - kept),
                            all.begin() + static_cast<std::ptrdiff_t>(before));
    act(Persist{std::move(record)});
}

// Sends an answer back along the way the question came; to ourselves, at once.
void Member::State::answer(NodeId upstream, Body body) {
    const MessagePtr message = make_signed(std::move(body), identity.member, 0, signer);
    if (upstream == self()) return on_routed(self(), message);
    send(upstream, message);
}

Report Member::State::report() const {
    Report report;
    report.role = role == Role::returning ? Role::returning : Role::active;
    report.member = identity.member;
    if (role == Role::returning) {
        report.address = identity.address;
        if (checkpoint) {
            report.applied = checkpoint->applied;
            report.lineage = checkpoint->lineage;
        }
    } else {
        report.applied = applied;
        report.stopped = stopped;
        report.started = started;
    }
    for (const auto& [key, entry] : own)
        if (key.kind == RequestKind::link_down)
            report.down.push_back({.peer = key.link.other(self()), .reason = entry.request.reason});
    return report;
}

// Rounds go up by one with each attempt: a leap is a lie, and would leave no round for anybody else.
bool Member::State::timely(std::uint64_t round) const {
    constexpr std::uint64_t longest_leap = std::uint64_t{1} << 32;
    return round <= std::max(highest_round, acceptor.promised.round) + longest_leap;
}

// No step that we take part in is completed without us.
std::uint64_t Member::State::most_steps_of_others() const {
    const MemberInfo* me = tip().find(self());
    return std::max(applied + 1, me == nullptr ? 0 : me->first_step);
}

bool Member::State::plausible(const Promise& promise) const {
    const Report& report = promise.report;
    if (report.member != promise.stamp.author) return false;
    if (report.role == Role::returning) return !tip().has(report.member);
    if (report.role != Role::active || !tip().has(report.member) || report.started > report.applied + 1) return false;
    return role != Role::active || report.applied <= most_steps_of_others();
}

Result<void> Member::State::fits_our_steps(const Delta& delta) const {
    if (!delta.settlement || delta.settlement->founded || role != Role::active) return {};
    if (delta.settlement->applied > most_steps_of_others())
        return Error{"it settles steps that nobody can have applied"};
    return {};
}

// Who came later than the steps in which somebody offended knows nothing of them, and votes as it does for all reasons
// that it has not heard of.
Result<void> Member::State::fits_our_findings(const Delta& delta) const {
    const MemberInfo* me = tip().find(self());
    if (role != Role::active || me == nullptr || me->first_step + offence_steps > applied) return {};
    for (const Removal& removal : delta.removals) {
        const MemberInfo* member = tip().find(removal.node);
        if (removal.reason != Reason::offended || member == nullptr) continue;
        if (!pending.contains(
                {.kind = RequestKind::expel, .subject = member->id, .link = {}, .name = {}, .author = {}}))
            return Error{"it expels " + brief(removal.node) + ", which was not found to be a repeat offender here"};
    }
    return {};
}

bool Member::State::on_prepare(NodeId from, const MessagePtr& message) {
    const auto& prepare = std::get<Prepare>(message->body);
    if (prepare.parent != tip().name || !tip().is_active(prepare.ballot.proposer) ||
        prepare.stamp.author.node != prepare.ballot.proposer || prepare.ballot.round == 0 ||
        !timely(prepare.ballot.round)) {
        if (prepare.epoch > tip().epoch + 1 && early.size() < 8) early.push_back({.from = from, .message = message});
        ++counters.stale;
        return false;
    }
    highest_round = std::max(highest_round, prepare.ballot.round);
    if (!votes()) return true;
    Promise promise;
    promise.parent = prepare.parent;
    promise.epoch = prepare.epoch;
    promise.answers = message->hash;
    if (prepare.ballot < acceptor.promised && !CHAOS_PLANTED(no_ballot_check)) {
        ++counters.stale;
        promise.ballot = acceptor.promised;
        answer(from, std::move(promise));
        return true;
    }
    if (proposal && proposal->ballot < prepare.ballot) proposal.reset();
    if (prepare.stamp.author != identity.member)
        propose_after(4 * spread() + 2 * options.detect, prepare.ballot.proposer);
    if (acceptor.promised != prepare.ballot) {
        acceptor.promised = prepare.ballot;
        persist();
    }
    if (prepare.flush && role == Role::active && !stopped) {
        stopped = true;
        act(StopStep{});
        running_view = {};
        taking = false;
    }
    promise.ballot = prepare.ballot;
    promise.accepted = acceptor.accepted;
    promise.report = report();
    answer(from, std::move(promise));
    return true;
}

bool Member::State::on_accept(NodeId from, const MessagePtr& message) {
    const auto& accept = std::get<Accept>(message->body);
    const Delta& delta = accept.delta;
    if (delta.parent != tip().name || accept.stamp.author.node != accept.ballot.proposer ||
        !tip().is_active(accept.ballot.proposer) || !timely(accept.ballot.round) ||
        (accept.ballot.round == 0 && accept.ballot.proposer != tip().senior)) {
        if (delta.epoch > tip().epoch + 1 && early.size() < 8) early.push_back({.from = from, .message = message});
        ++counters.stale;
        return false;
    }
    highest_round = std::max(highest_round, accept.ballot.round);
    // A proposer that offers two values in one ballot votes twice.
    MessagePtr& before = accepts_seen[accept.ballot.proposer];
    if (before != nullptr) {
        const auto& earlier = std::get<Accept>(before->body);
        if (earlier.ballot == accept.ballot && earlier.delta != delta) {
            accuse(before, message);
            return false;
        }
    }
    if (before == nullptr || std::get<Accept>(before->body).ballot < accept.ballot) before = message;
    if (!votes()) return true;
    Accepted reply;
    reply.parent = delta.parent;
    reply.epoch = delta.epoch;
    reply.ballot = accept.ballot;
    reply.answers = message->hash;
    if (accept.ballot < acceptor.promised && !CHAOS_PLANTED(no_ballot_check)) {
        ++counters.stale;
        reply.promised = acceptor.promised;
        answer(from, std::move(reply));
        return true;
    }
    // Voting for a planned change promises not to contribute to its steps under this view. Too late for that if one was
    // begun, unless it was stopped: then it is not completed before a settlement.
    if (role == Role::active && !delta.settlement && !stopped && delta.first_step < started &&
        !CHAOS_PLANTED(promise_not_kept)) {
        reply.started = started;
        answer(from, std::move(reply));
        return true;
    }
    const Name name = name_of(delta);
    const Result<ViewPtr> next = view_after(delta, name);
    Result<void> fits = fits_our_steps(delta);
    if (fits) fits = fits_our_findings(delta);
    if (delta.fork == Fork::forced)
        if (const Result<Recovery> possible = recovery(); !possible) fits = possible.error();
    if (!next || !fits) {
        note("does not vote for a view proposed by " + brief(accept.ballot.proposer) + ": " +
             (next ? fits.error() : next.error()).message);
        ++counters.refused;
        return false;
    }
    voted = *next;
    if (proposal && proposal->ballot < accept.ballot) proposal.reset();
    if (accept.stamp.author != identity.member)
        propose_after(4 * spread() + 2 * options.detect, accept.ballot.proposer);
    acceptor.promised = std::max(acceptor.promised, accept.ballot);
    // A fork is another line: it does not take the place of a vote in this one.
    if (delta.fork == Fork::none) acceptor.accepted = Vote{.ballot = accept.ballot, .delta = delta};
    persist();
    reply.value = name;
    reply.claims = claims_for_vote();
    answer(from, std::move(reply));
    return true;
}

void Member::State::on_routed(NodeId from, const MessagePtr& message) {
    std::uint64_t answers = 0;
    if (const auto* promise = std::get_if<Promise>(&message->body)) answers = promise->answers;
    if (const auto* accepted = std::get_if<Accepted>(&message->body)) {
        answers = accepted->answers;
        watch_votes(message);
        if (line.empty()) return;
    }
    const NodeId* upstream = seen.upstream(answers);
    if (upstream == nullptr) {
        ++counters.stale;
        return;
    }
    if (*upstream != self()) {
        if (connections.contains(*upstream)) send(*upstream, message);
        return;
    }
    const bool awaited = proposal && proposal->asked.contains(answers);
    const auto* vote = std::get_if<Accepted>(&message->body);
    const bool claims_something = vote != nullptr && !vote->claims.empty();
    if (!awaited && !claims_something) {
        ++counters.stale;
        return;
    }
    const Stamp* stamp = stamp_of(message->body);
    if (from != self() && !signature_fits(*message, signer)) {
        ++counters.forged;
        return;
    }
    if (!tip().is_active(stamp->author.node)) {
        ++counters.refused;
        return;
    }
    // It may come when enough others have voted, and no word more is needed.
    if (!awaited) return hear_claims(*vote);
    if (const auto* promise = std::get_if<Promise>(&message->body)) on_promise(*promise);
    if (vote != nullptr) on_accepted(*vote);
}

}  // namespace chaos::cluster
