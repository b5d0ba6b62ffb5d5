// What follows the tip: requests, ballots, the flush, decisions, and the adoption of views.
//
// One view is decided at a time, by ballots. A value that got a quorum of votes in some ballot is the only one that any
// later ballot can propose, because its proposer hears from a quorum first (Prepare, Promise). The longest-standing
// member may skip that in round 0, the lowest ballot of all: nothing can have been voted for before.
//
//   planned:       Accept ──► votes ──► Decide                               one round trip and its spreading
//   interrupting:  Prepare(flush) ──► reports ──► Accept ──► votes ──► Decide    two
#include "base/planted.h"
#include "cluster/state.h"

#include <algorithm>

namespace chaos::cluster {

// ---- messages that everybody relays

void Member::State::on_flooded(NodeId from, const MessagePtr& message) {
    const Stamp* stamp = stamp_of(message->body);
    if (stamp == nullptr) {
        ++counters.refused;
        return;
    }
    if (const auto* request = std::get_if<Request>(&message->body);
        request != nullptr && request->kind == RequestKind::join && stamp->author.node == from &&
        (line.empty() || tip().find(from) == nullptr || tip().find(from)->id != stamp->author)) {
        if (line.empty()) return;
        if (!signature_fits(*message, signer)) {
            ++counters.forged;
            return;
        }
        return on_join_request(from, *request);
    }
    if (line.empty()) {
        ++counters.stale;
        return;
    }
    if (seen.upstream(message->hash) != nullptr) {
        ++counters.repeated;
        return;
    }
    if (!CHAOS_PLANTED(signature_unchecked) && !signature_fits(*message, signer)) {
        ++counters.forged;
        return;
    }
    seen.add(message->hash, from);
    const bool relay = std::visit(
        [&](const auto& body) {
            using B = std::decay_t<decltype(body)>;
            if constexpr (std::is_same_v<B, Request>) {
                return on_request(body);
            } else if constexpr (std::is_same_v<B, Prepare>) {
                return on_prepare(from, message);
            } else if constexpr (std::is_same_v<B, Accept>) {
                return on_accept(from, message);
            } else if constexpr (std::is_same_v<B, Decide>) {
                return on_decide(body);
            } else if constexpr (std::is_same_v<B, Proof>) {
                return on_proof(body);
            } else {
                ++counters.refused;
                return false;
            }
        },
        message->body);
    if (relay && !line.empty()) flood(message, from);
}

bool Member::State::on_request(const Request& request) {
    const MemberInfo* author = tip().find(request.stamp.author.node);
    if (author == nullptr || author->id != request.stamp.author) {
        ++counters.stale;
        return false;
    }
    if (request.kind == RequestKind::link_up) {
        if (!request.link.touches(request.stamp.author.node)) {
            ++counters.refused;
            return false;
        }
        Request withdrawn;
        withdrawn.kind = RequestKind::link_down;
        withdrawn.link = request.link;
        pending.erase(key_of(withdrawn));
        return true;
    }
    const Fitness fit = fitness(tip(), request, &signer);
    if (fit.kind == Fitness::Kind::refused) {
        ++counters.refused;
        return false;
    }
    if (fit.kind == Fitness::Kind::done) {
        ++counters.stale;
        return true;  // others may not know yet
    }
    const RequestKey key = key_of(request);
    if (pending.insert_or_assign(key, request).second) pending_since[key] = now;
    consider_proposing();
    if (proposal && fit.kind == Fitness::Kind::interrupts) {
        // News about who can be reached. A planned change in the making may not survive it.
        if (!proposal->flush && !proposal->accepting) {
            drop_proposal(0);
        } else {
            advance();
        }
    }
    return true;
}

void Member::State::ask_for(Request request) {
    request.stamp.author = identity.member;
    const RequestKey key = key_of(request);
    const Fitness fit = fitness(tip(), request, nullptr);
    if (fit.kind == Fitness::Kind::refused) return note("not possible: " + fit.why);
    if (fit.kind == Fitness::Kind::done) return;
    const auto [entry, fresh] = own.try_emplace(key);
    if (!fresh && now < entry->second.resend_at) return;
    entry->second.request = request;
    const std::uint32_t attempt = ++entry->second.attempt;
    // Repeats come ever later: what is not decided for long is not helped by shouting.
    entry->second.resend_at = now + options.resend * std::min<std::uint32_t>(attempt, 8) + spread();
    const MessagePtr message = make_signed(std::move(request), identity.member, attempt, signer);
    on_flooded(self(), message);
}

void Member::State::repeat_own() {
    if (line.empty()) return own.clear();
    std::vector<Request> due;
    for (const auto& [key, entry] : own)
        if (now >= entry.resend_at) due.push_back(entry.request);
    for (Request& request : due) {
        const RequestKey key = key_of(request);
        const Fitness::Kind kind = fitness(tip(), request, nullptr).kind;
        if (kind == Fitness::Kind::done || kind == Fitness::Kind::refused || !tip().has(identity.member)) {
            own.erase(key);
        } else {
            ask_for(std::move(request));
        }
        if (line.empty()) return;
    }
}

void Member::State::prune_pending() {
    std::erase_if(pending, [&](const auto& entry) {
        const Fitness::Kind kind = fitness(tip(), entry.second, nullptr).kind;
        return kind == Fitness::Kind::done || kind == Fitness::Kind::refused;
    });
    std::erase_if(pending_since, [&](const auto& entry) { return !pending.contains(entry.first); });
    std::erase_if(own, [&](const auto& entry) {
        return fitness(tip(), entry.second.request, nullptr).kind == Fitness::Kind::done;
    });
}

// ---- voting

void Member::State::persist() {
    constexpr std::size_t ancestors_on_disk = 256;
    DiskRecord record{
        .view = line.tip(), .ancestors = {}, .promised = acceptor.promised, .accepted = acceptor.accepted};
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
    if (upstream == self()) return on_routed(message);
    send(upstream, message);
}

Report Member::State::report() const {
    Report report;
    report.role = role == Role::returning ? Role::returning : Role::active;
    report.member = identity.member;
    if (role == Role::returning) {
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

bool Member::State::on_prepare(NodeId from, const MessagePtr& message) {
    const auto& prepare = std::get<Prepare>(message->body);
    if (prepare.parent != tip().name || !tip().is_active(prepare.ballot.proposer) ||
        prepare.stamp.author.node != prepare.ballot.proposer || prepare.ballot.round == 0) {
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
        promise.ballot = acceptor.promised;
        answer(from, std::move(promise));
        return true;
    }
    if (proposal && proposal->ballot < prepare.ballot) proposal.reset();
    if (prepare.stamp.author != identity.member) propose_at = now + 4 * spread() + 2 * options.detect;
    if (acceptor.promised != prepare.ballot) {
        acceptor.promised = prepare.ballot;
        persist();
    }
    if (prepare.flush && role == Role::active && !stopped) {
        stopped = true;
        if (running_view != Name{} || taking) act(StopStep{});
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
        !tip().is_active(accept.ballot.proposer) ||
        (accept.ballot.round == 0 && accept.ballot.proposer != tip().senior)) {
        if (delta.epoch > tip().epoch + 1 && early.size() < 8) early.push_back({.from = from, .message = message});
        ++counters.stale;
        return false;
    }
    highest_round = std::max(highest_round, accept.ballot.round);
    // A proposer that offers two values in one ballot votes twice.
    const auto [first, fresh] = accepts_seen.try_emplace(accept.ballot, message);
    if (!fresh && std::get<Accept>(first->second->body).delta != delta) {
        accuse(first->second, message);
        return false;
    }
    if (!votes()) return true;
    Accepted reply;
    reply.parent = delta.parent;
    reply.epoch = delta.epoch;
    reply.ballot = accept.ballot;
    reply.answers = message->hash;
    if (accept.ballot < acceptor.promised && !CHAOS_PLANTED(no_ballot_check)) {
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
    const ViewPtr governing = line.governing(delta.first_step);
    const ViewPtr known = options.views ? options.views->find(name_of(delta)) : nullptr;
    if (!known) {
        const Result<ViewPtr> next = apply(tip(), governing.get(), delta);
        if (!next) {
            note("does not vote for a view proposed by " + brief(accept.ballot.proposer) + ": " + next.error().message);
            ++counters.refused;
            return false;
        }
        if (options.views) options.views->add(*next);
    }
    if (proposal && proposal->ballot < accept.ballot) proposal.reset();
    if (accept.stamp.author != identity.member) propose_at = now + 4 * spread() + 2 * options.detect;
    acceptor.promised = std::max(acceptor.promised, accept.ballot);
    // A fork is another line: it does not take the place of a vote in this one.
    if (!delta.fork) acceptor.accepted = Vote{.ballot = accept.ballot, .delta = delta};
    persist();
    reply.value = name_of(delta);
    reply.claims = claims();
    answer(from, std::move(reply));
    return true;
}

// ---- answers on their way to a proposer

void Member::State::on_routed(const MessagePtr& message) {
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
    if (!proposal || !proposal->asked.contains(answers)) {
        ++counters.stale;
        return;
    }
    if (!signature_fits(*message, signer)) {
        ++counters.forged;
        return;
    }
    const Stamp* stamp = stamp_of(message->body);
    if (!tip().is_active(stamp->author.node)) {
        ++counters.refused;
        return;
    }
    if (const auto* promise = std::get_if<Promise>(&message->body)) on_promise(*promise);
    if (const auto* accepted = std::get_if<Accepted>(&message->body)) on_accepted(*accepted);
}

void Member::State::watch_votes(const MessagePtr& message) {
    const auto& vote = std::get<Accepted>(message->body);
    if (line.empty() || vote.parent != tip().name || vote.value == Name{}) return;
    const auto [entry, fresh] = votes_seen.try_emplace(vote.stamp.author.node, message);
    if (fresh) return;
    const auto& before = std::get<Accepted>(entry->second->body);
    if (before.ballot == vote.ballot && before.value != vote.value) return accuse(entry->second, message);
    if (before.ballot < vote.ballot) entry->second = message;
}

void Member::State::accuse(const MessagePtr& one, const MessagePtr& other) {
    if (CHAOS_PLANTED(double_vote_ignored) || role != Role::active || !tip().has(identity.member)) return;
    if (!signature_fits(*one, signer) || !signature_fits(*other, signer)) {
        ++counters.forged;
        return;
    }
    Proof proof;
    proof.first = one->bytes;
    proof.second = other->bytes;
    on_flooded(self(), make_signed(std::move(proof), identity.member, 0, signer));
}

bool Member::State::on_proof(const Proof& proof) {
    const Result<MessagePtr> one = decode_message(proof.first);
    const Result<MessagePtr> other = decode_message(proof.second);
    if (!one || !other || (*one)->bytes == (*other)->bytes || !signature_fits(**one, signer) ||
        !signature_fits(**other, signer)) {
        ++counters.refused;
        return false;
    }
    const Stamp* author = stamp_of((*one)->body);
    if (author->author != stamp_of((*other)->body)->author || !tip().has(author->author)) {
        ++counters.stale;
        return false;
    }
    const auto* vote1 = std::get_if<Accepted>(&(*one)->body);
    const auto* vote2 = std::get_if<Accepted>(&(*other)->body);
    const auto* offer1 = std::get_if<Accept>(&(*one)->body);
    const auto* offer2 = std::get_if<Accept>(&(*other)->body);
    const bool two_votes = vote1 != nullptr && vote2 != nullptr && vote1->parent == vote2->parent &&
                           vote1->ballot == vote2->ballot && vote1->value != vote2->value && vote1->value != Name{} &&
                           vote2->value != Name{};
    const bool two_offers = offer1 != nullptr && offer2 != nullptr && offer1->ballot == offer2->ballot &&
                            offer1->delta.parent == offer2->delta.parent && offer1->delta != offer2->delta;
    if (!two_votes && !two_offers) {
        ++counters.refused;
        return false;
    }
    Request request;
    request.kind = RequestKind::expel;
    request.subject = author->author;
    request.stamp.author = identity.member;
    const RequestKey key = key_of(request);
    if (pending.emplace(key, request).second) {
        pending_since[key] = now;
        note(brief(author->author.node) + " voted twice in one ballot; it is going to be expelled");
    }
    consider_proposing();
    return true;
}

// ---- proposing

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

// Is there a reason for a new view, and when is it our turn to propose it?
void Member::State::consider_proposing() {
    if (line.empty() || proposal || propose_at != never || !votes()) return;
    bool needed = stopped;
    if (role == Role::returning) {
        // Those who still run will find our old seat empty; only where nobody does is it ours to propose.
        needed = options.may_found &&
                 std::ranges::none_of(connections, [](const auto& entry) { return entry.second.role == Role::active; });
    }
    for (auto entry = pending.begin(); !needed && entry != pending.end(); ++entry) {
        const Fitness::Kind kind = fitness(tip(), entry->second, nullptr).kind;
        needed = kind == Fitness::Kind::fits || kind == Fitness::Kind::interrupts;
    }
    if (!needed) return;
    if (tip().senior == self() && role == Role::active) {
        propose_at = now;
        return;
    }
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
    propose_at = rank == 0 ? now : now + rank * (2 * spread() + options.resend / 2);
    // A node that came back first looks for those who still run.
    if (role == Role::returning) propose_at += 2 * options.detect;
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

void Member::State::propose() {
    if (line.empty() || proposal || !votes()) return;
    bool flush = stopped || role == Role::returning;
    for (const auto& [key, request] : pending)
        if (fitness(tip(), request, nullptr).kind == Fitness::Kind::interrupts) flush = true;
    if (!flush && tip().senior == self() && acceptor.promised == Ballot{} && !acceptor.accepted && !round_zero_used) {
        std::optional<Composed> composed = compose_planned(tip(), pending, planned_step(started), patient());
        if (!composed) return;
        for (std::string& text : composed->notes) note(std::move(text));
        round_zero_used = true;
        proposal.emplace();
        proposal->ballot = {.round = 0, .proposer = self()};
        return propose_value(composed->delta);
    }
    prepare(flush);
}

void Member::State::prepare(bool flush) {
    proposal.emplace();
    proposal->ballot = {.round = std::max(highest_round, acceptor.promised.round) + 1, .proposer = self()};
    highest_round = proposal->ballot.round;
    proposal->flush = flush;
    proposal->begun = now;
    proposal->deadline = now + options.detect + 4 * spread() + options.resend;
    repeat_proposal();
}

void Member::State::propose_value(const Delta& delta) {
    proposal->accepting = true;
    proposal->delta = delta;
    proposal->value = name_of(delta);
    proposal->votes.clear();
    proposal->begun = now;
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
    propose_at = now + retry_after;
}

void Member::State::on_promise(const Promise& promise) {
    if (proposal->accepting) return;
    if (promise.ballot > proposal->ballot) {
        highest_round = std::max(highest_round, promise.ballot.round);
        // Another proposer is ahead; leave it the time to finish.
        return drop_proposal(2 * spread() + options.resend);
    }
    if (promise.ballot != proposal->ballot) return;
    proposal->promises.insert_or_assign(promise.stamp.author.node, promise);
    advance();
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
    for (const LinkInfo& claim : accepted.claims) {
        if (!claim.id.touches(accepted.stamp.author.node)) continue;
        Request request;
        request.kind = RequestKind::figures;
        request.link = claim.id;
        request.figures = claim.figures;
        request.stamp.author = accepted.stamp.author;
        pending.insert_or_assign(key_of(request), request);
    }
    advance();
}

bool Member::State::may_fork(const std::set<NodeId>& missing) {
    if (tip().strict) return false;
    if (CHAOS_PLANTED(fork_without_waiting)) return true;
    if (without_quorum_since == never) without_quorum_since = now;
    // Closed by their hosts: the processes are gone, there is nothing to wait for.
    std::map<LinkId, Reason> reasons;
    for (const auto& [key, request] : pending)
        if (key.kind == RequestKind::link_down) reasons[key.link] = request.reason;
    for (const auto& [node, promise] : proposal->promises)
        for (const DownLink& link : promise.report.down) reasons[link_between(node, link.peer)] = link.reason;
    bool all_closed = role == Role::active;
    for (const NodeId node : missing) {
        bool seen_closed = false;
        for (const NodeId peer : tip().neighbours(node)) {
            if (missing.contains(peer)) continue;
            const auto reason = reasons.find(link_between(node, peer));
            if (reason != reasons.end() && reason->second == Reason::closed) {
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

// Looks at what has come in, and goes on if it is enough.
void Member::State::advance() {
    if (!proposal) return;
    const View& view = tip();
    if (proposal->accepting) {
        std::vector<NodeId> voters(proposal->votes.begin(), proposal->votes.end());
        bool enough = is_quorum(view, voters);
        if (proposal->delta.fork) {
            // Everybody who is to be in it.
            enough = std::ranges::all_of(view.members, [&](const MemberInfo& member) {
                const NodeId node = member.id.node;
                const bool removed = std::ranges::any_of(proposal->delta.removals,
                                                         [&](const Removal& removal) { return removal.node == node; });
                const bool again = std::ranges::any_of(proposal->delta.additions,
                                                       [&](const MemberInfo& added) { return added.id.node == node; });
                if (member.standing != Standing::active || (removed && !again)) return true;
                return proposal->votes.contains(node);
            });
        }
        if (enough) return decide();
        std::vector<NodeId> willing;
        for (const MemberInfo& member : view.members)
            if (!proposal->declined.contains(member.id.node)) willing.push_back(member.id.node);
        if (!is_quorum(view, willing)) prepare(true);
        return;
    }

    std::vector<NodeId> voters;
    for (const auto& [node, promise] : proposal->promises) voters.push_back(node);
    const bool quorum = is_quorum(view, voters);
    if (!proposal->flush) {
        if (!quorum) {
            if (now >= proposal->deadline) prepare(true);
            return;
        }
        const Promise* voted = nullptr;
        std::uint64_t begun = started;
        bool somebody_stopped = false;
        for (const auto& [node, promise] : proposal->promises) {
            if (promise.accepted && (voted == nullptr || promise.accepted->ballot > voted->accepted->ballot))
                voted = &promise;
            begun = std::max(begun, promise.report.started);
            somebody_stopped = somebody_stopped || promise.report.stopped;
        }
        if (voted != nullptr) return propose_value(Delta(voted->accepted->delta));
        if (somebody_stopped) return prepare(true);
        std::optional<Composed> composed = compose_planned(view, pending, planned_step(begun), patient());
        if (!composed) {
            proposal.reset();
            return;
        }
        for (std::string& text : composed->notes) note(std::move(text));
        return propose_value(composed->delta);
    }

    // Flush: everybody that can be reached must have reported, or be given up.
    const std::vector<LinkId> down = down_links();
    const std::vector<NodeId> reached = reachable_from(view, self(), down);
    bool complete = true;
    std::set<NodeId> missing;
    bool somebody_runs = false;
    for (const MemberInfo& member : view.members) {
        const NodeId node = member.id.node;
        if (member.standing != Standing::active) continue;
        const auto promise = proposal->promises.find(node);
        if (promise != proposal->promises.end()) {
            somebody_runs = somebody_runs || promise->second.report.role == Role::active;
            continue;
        }
        missing.insert(node);
        if (role == Role::active && std::ranges::binary_search(reached, node)) complete = false;
        if (role == Role::returning) complete = false;
    }
    if (CHAOS_PLANTED(flush_skipped) && quorum) complete = true;
    if (!complete && now < proposal->deadline) return;
    const bool fork = !quorum;
    if (fork && !may_fork(missing)) return;
    if (quorum) without_quorum_since = never;
    if (role == Role::returning && somebody_runs) {
        // One who still runs settles this; we only have a vote.
        return drop_proposal(4 * spread() + 2 * options.detect);
    }
    if (!fork) {
        const Promise* voted = nullptr;
        std::uint64_t farthest = 0;
        for (const auto& [node, promise] : proposal->promises) {
            if (promise.accepted && (voted == nullptr || promise.accepted->ballot > voted->accepted->ballot))
                voted = &promise;
            if (promise.report.role == Role::active) farthest = std::max(farthest, promise.report.applied);
        }
        // A planned change that a quorum voted for keeps its first step from being completed under this view. If
        // somebody did complete it, there was no such quorum.
        if (voted != nullptr && (voted->accepted->delta.settlement || voted->accepted->delta.first_step >= farthest))
            return propose_value(Delta(voted->accepted->delta));
    }
    std::map<NodeId, Report> reports;
    for (const auto& [node, promise] : proposal->promises) reports.emplace(node, promise.report);
    const Result<Delta> delta = compose_settlement(view, self(), reports, down, fork);
    if (!delta) {
        note("cannot settle: " + delta.error().message);
        return drop_proposal(options.resend);
    }
    const ViewPtr governing = line.governing(delta->first_step);
    if (const Result<ViewPtr> next = apply(view, governing.get(), *delta); !next) {
        note("cannot settle: " + next.error().message);
        return drop_proposal(options.resend);
    }
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
    on_decide(std::get<Decide>(message->body));
}

// ---- adopting

bool Member::State::on_decide(const Decide& decide) {
    const Delta& delta = decide.delta;
    if (delta.parent != tip().name && !(CHAOS_PLANTED(stale_epoch_accepted) && delta.epoch == tip().epoch)) {
        ++counters.stale;
        return false;
    }
    if (!tip().is_active(decide.stamp.author.node)) {
        ++counters.refused;
        return false;
    }
    if (delta.fork) {
        // A fork that leaves us out concerns us only if we cannot go on ourselves.
        const bool ours =
            std::ranges::none_of(delta.removals, [&](const Removal& removal) { return removal.node == self(); });
        const bool again =
            std::ranges::any_of(delta.additions, [&](const MemberInfo& added) { return added.id.node == self(); });
        if (!ours && !again && role == Role::active && is_quorum(tip(), reachable_from(tip(), self(), down_links()))) {
            lose_link(decide.stamp.author.node, Reason::silent);
            return false;
        }
    }
    return adopt(decide);
}

bool Member::State::adopt(const Decide& decision) {
    const Delta& delta = decision.delta;
    ViewPtr next = options.views ? options.views->find(name_of(delta)) : nullptr;
    if (!next) {
        const ViewPtr governing = line.governing(delta.first_step);
        const Result<ViewPtr> applied_delta = apply(tip(), governing.get(), delta);
        if (!applied_delta) {
            note("cannot follow a decision of " + brief(decision.stamp.author.node) + ": " +
                 applied_delta.error().message);
            ++counters.refused;
            return false;
        }
        next = *applied_delta;
        if (options.views) options.views->add(next);
    }
    for (const Removal& removal : delta.removals) {
        constexpr std::size_t lost_kept = 64;
        const MemberInfo* member = tip().find(removal.node);
        if (removal.reason != Reason::failed || removal.node == self()) continue;
        lost.push_back({.node = removal.node, .address = member->address});
        if (lost.size() > lost_kept) lost.pop_front();
    }
    line.append(next, decision);
    acceptor = {};
    proposal.reset();
    round_zero_used = false;
    highest_round = 0;
    propose_at = without_quorum_since = never;
    votes_seen.clear();
    accepts_seen.clear();
    act(Adopted{next});
    persist();
    after_adoption();
    return true;
}

// What the new tip means for this node.
void Member::State::after_adoption() {
    const View& view = tip();
    const MemberInfo* me = view.find(self());
    const bool listed = me != nullptr && me->id == identity.member;
    prune_pending();
    std::erase_if(missing_since, [&](const auto& entry) { return view.find(entry.first) == nullptr; });

    // Newcomers among our neighbours learn the view from us.
    for (const auto& [peer, connection] : connections) {
        const MemberInfo* member = view.find(peer);
        if (member != nullptr && member->standing == Standing::syncing && connection.role == Role::joining &&
            member->id == connection.member && role == Role::active)
            send(peer, make_message(line.whole(applied)));
    }
    for (auto& [peer, connection] : connections)
        if (connection.role == Role::joining && view.has(connection.member)) connection.role = Role::syncing;

    if (role == Role::returning && !listed) {
        if (me == nullptr) {
            std::vector<Candidate> contacts;
            for (const MemberInfo& member : view.members)
                contacts.push_back({.node = member.id.node, .address = member.address});
            note("the cluster went on without this node's earlier life; it joins anew");
            line.clear();
            acceptor = {};
            proposal.reset();
            pending.clear();
            start_joining(std::move(contacts));
        }
        return recheck_early();
    }
    if (!listed) {
        if (role == Role::joining) return;
        const bool runs_on = role == Role::active && !view.settlement;
        if (!runs_on) {
            const bool final = std::ranges::binary_search(view.revoked, self());
            return exclude("view " + brief(view.name) + " goes on without this node", final);
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
            act(TakeResult{.step = applied, .holders = settlement.holders});
        } else if (applied != settlement.applied && !CHAOS_PLANTED(flush_skipped) && !CHAOS_PLANTED(holder_ignored)) {
            return exclude("this node's steps do not fit those of view " + brief(view.name), false);
        }
    }
    maybe_start_step();
    recheck_early();
    consider_proposing();
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

}  // namespace chaos::cluster
