#include "cluster/member.h"

#include "base/planted.h"
#include "base/words.h"
#include "cluster/state.h"

#include <algorithm>

namespace chaos::cluster {

namespace {

// Several views may follow each other in one go. A step that one of them started and the next one stopped or started
// anew was never begun: a driver that carried it out might have completed it by then.
void drop_superseded_steps(Actions& actions) {
    const auto concerns_a_step = [](const Action& action) {
        return std::holds_alternative<StartStep>(action) || std::holds_alternative<StopStep>(action);
    };
    const auto last = std::find_if(actions.rbegin(), actions.rend(), concerns_a_step);
    if (last == actions.rend()) return;
    const auto end = last.base() - 1;
    actions.erase(std::remove_if(actions.begin(), end,
                                 [](const Action& action) { return std::holds_alternative<StartStep>(action); }),
                  end);
}

}  // namespace

Member::Member(const Options& options, const Identity& identity, const Signer& signer, std::optional<DiskRecord> record,
               std::optional<Checkpoint> checkpoint, Nanoseconds now)
    : state_(std::make_unique<State>(options, identity, signer)) {
    State& state = *state_;
    state.now = state.ticked_at = state.beat_at = now;
    state.checkpoint = checkpoint;
    if (checkpoint) state.applied = state.stable = checkpoint->applied;
    if (!record || !record->view) return;
    // An earlier life of this node had a seat. Its vote is on disk, so the seat may still vote.
    state.line.begin(record->view, std::move(record->ancestors));
    if (!CHAOS_PLANTED(restarted_voter_forgets)) {
        state.acceptor = {.promised = record->promised, .accepted = std::move(record->accepted)};
        state.highest_round = state.acceptor.promised.round;
    }
    for (const MemberInfo& member : record->view->members)
        if (member.id.node != identity.member.node)
            state.join.contacts.push_back({.node = member.id.node, .address = member.address});
    for (const Candidate& candidate : record->lost) state.remember_lost(candidate);
    // The last of its line, and nothing of what that trained is left: those that it lost before may have kept theirs.
    const bool nothing_left = !checkpoint && record->view->active_count() == 1 && !state.lost.empty();
    if (nothing_left) {
        state.join.contacts.insert(state.join.contacts.end(), state.lost.begin(), state.lost.end());
        std::string who;
        for (const Candidate& candidate : state.lost) who += (who.empty() ? "" : ", ") + brief(candidate.node);
        state.founding_waits =
            "was the last member of view " + brief(record->view->name) +
            ", and nothing of what that trained is left; asks those that it had lost before, who may "
            "have a checkpoint, to be let in: " +
            who + "; to train from the beginning instead, choose another folder";
    }
    if (record->view->find(identity.member.node) != nullptr && !nothing_left) {
        state.role = Role::returning;
        return;
    }
    // The cluster had gone on without it, but it knows whom to ask.
    state.role = Role::joining;
    state.line.clear();
    state.acceptor = {};
}

Member::~Member() = default;
Member::Member(Member&&) noexcept = default;

Actions Member::step(const Event& event, Nanoseconds now) {
    State& state = *state_;
    CHAOS_ASSERT(now >= state.now);
    state.now = now;
    state.actions.clear();
    if (state.gone) return {};
    state.excuse_lateness();
    std::visit(
        [&](const auto& what) {
            using T = std::decay_t<decltype(what)>;
            if constexpr (std::is_same_v<T, LinkUp>) {
                state.on_link_up(what.peer);
            } else if constexpr (std::is_same_v<T, LinkClosed>) {
                state.on_link_closed(what.peer);
            } else if constexpr (std::is_same_v<T, DialFailed>) {
                state.on_dial_failed(what.peer);
            } else if constexpr (std::is_same_v<T, ReceivedGarbage>) {
                ++state.counters.malformed;
            } else if constexpr (std::is_same_v<T, Received>) {
                const auto connection = state.connections.find(what.from);
                if (connection == state.connections.end()) {
                    ++state.counters.stale;
                    return;
                }
                connection->second.last_heard = now;
                const MessagePtr& message = what.message;
                std::visit(
                    [&](const auto& body) {
                        using B = std::decay_t<decltype(body)>;
                        if constexpr (std::is_same_v<B, Hello>) {
                            state.on_hello(what.from, body);
                        } else if constexpr (std::is_same_v<B, Heartbeat>) {
                            state.on_heartbeat(what.from, body);
                        } else if constexpr (std::is_same_v<B, Bye>) {
                            connection->second.said_bye = true;
                        } else if constexpr (std::is_same_v<B, Ask>) {
                            state.on_ask(what.from, body);
                        } else if constexpr (std::is_same_v<B, Answer>) {
                            state.on_answer(what.from, body);
                        } else if constexpr (std::is_same_v<B, LinkOffer>) {
                            state.on_offer(what.from, body);
                        } else if constexpr (std::is_same_v<B, LinkConsent>) {
                            state.on_consent(what.from, body, *message);
                        } else if constexpr (std::is_same_v<B, CatchUp>) {
                            state.on_catch_up(what.from, body);
                        } else if constexpr (std::is_same_v<B, History>) {
                            state.on_history(what.from, body, *message);
                        } else if constexpr (std::is_same_v<B, LineSummary>) {
                            state.on_summary(what.from, body, message);
                        } else if constexpr (std::is_same_v<B, Promise> || std::is_same_v<B, Accepted>) {
                            state.on_routed(what.from, message);
                        } else {
                            state.on_flooded(what.from, message);
                        }
                    },
                    message->body);
            } else if constexpr (std::is_same_v<T, Applied>) {
                state.on_applied(what);
            } else if constexpr (std::is_same_v<T, StepFailed>) {
                state.on_step_failed(what);
            } else if constexpr (std::is_same_v<T, Synced>) {
                state.on_synced(what);
            } else if constexpr (std::is_same_v<T, FoundOffender>) {
                state.on_offender(what.node);
            } else if constexpr (std::is_same_v<T, WentAstray>) {
                if (state.role == Role::active && state.tip().active_count() > 1)
                    state.exclude("its state is not that of the other members", false);
            } else if constexpr (std::is_same_v<T, Measured>) {
                if (const auto at = state.connections.find(what.peer); at != state.connections.end())
                    at->second.rate = what.rate;
            } else if constexpr (std::is_same_v<T, MeasuredSpeed>) {
                state.identity.speed = what.speed;
            } else if constexpr (std::is_same_v<T, FoundCommand>) {
                // Whoever only asks to be let in may do without.
                const bool has_none =
                    state.role == Role::outside || (state.role == Role::joining && state.line.empty());
                if (!has_none) return state.note("cannot found a cluster: this node has one already");
                if (!state.vouched) return state.note("cannot found a cluster: " + state.vouched.error().message);
                Founding founding = what.founding;
                founding.founder = state.info();
                if (state.vouched->token) founding.tokens = {{.token = *state.vouched->token, .node = state.self()}};
                if (!found(founding)->institution_in(founding.founder.institution))
                    return state.note("cannot found a cluster: this node's institution is not among those it lists");
                state.line.begin(found(founding), {});
                state.role = Role::active;
                state.join = {};
                state.act(Adopted{state.line.tip()});
                state.persist();
                state.maybe_start_step();
            } else if constexpr (std::is_same_v<T, JoinCommand>) {
                if (state.role == Role::outside) state.start_joining(what.contacts);
                if (state.role == Role::returning || state.role == Role::joining)
                    state.join.contacts.insert(state.join.contacts.end(), what.contacts.begin(), what.contacts.end());
            } else if constexpr (std::is_same_v<T, LeaveCommand>) {
                state.leaving = true;
                if (state.role == Role::active && state.tip().active_count() == 1)
                    state.note("the last active member stays until there is another; it may simply be stopped");
                state.finish_leaving();
            } else if constexpr (std::is_same_v<T, ConnectCommand>) {
                state.wish_link(what.peer, true);
            } else if constexpr (std::is_same_v<T, DisconnectCommand>) {
                state.wish_link(what.peer, false);
            } else if constexpr (std::is_same_v<T, InstitutionCommand>) {
                if (state.line.empty()) return state.note("not possible: this node has no cluster");
                Request request;
                request.kind = what.kind;
                request.name = what.root;
                if (what.kind == RequestKind::revoke_node) {
                    const Result<Revocation> read = state.signer.revocation(what.revocation);
                    if (!read) return state.note("not possible: " + read.error().message);
                    request.name = read->by;
                    request.subject.node = read->subject;
                    request.revocation = what.revocation;
                }
                state.ask_for(std::move(request));
            } else if constexpr (std::is_same_v<T, RecoverCommand>) {
                state.recover();
            }
        },
        event);
    if (!state.gone) state.tick();
    drop_superseded_steps(state.actions);
    return std::move(state.actions);
}

Nanoseconds Member::wake_at() const {
    const State& state = *state_;
    if (state.gone) return never;
    Nanoseconds at = std::min({state.beat_at, state.propose_at, state.next_silence()});
    if (state.proposal) at = std::min(at, state.proposal->resend_at);
    return at;
}

Role Member::role() const {
    return state_->role;
}
MemberId Member::id() const {
    return state_->identity.member;
}
ViewPtr Member::view() const {
    return state_->line.empty() ? nullptr : state_->line.tip();
}
ViewPtr Member::governing(std::uint64_t step) const {
    return state_->line.governing(step);
}
std::uint64_t Member::applied() const {
    return state_->applied;
}
std::uint64_t Member::stable() const {
    return state_->stable;
}
const Counters& Member::counters() const {
    return state_->counters;
}

bool Member::neighbours_applied(std::uint64_t steps) const {
    return std::ranges::all_of(state_->connections, [&](const auto& entry) { return entry.second.applied >= steps; });
}

Result<Recovery> Member::recovery() const {
    return state_->recovery();
}

bool Member::runs() const {
    const State& state = *state_;
    return state.role == Role::active && state.without_quorum_since == never && !state.stopped && !state.taking &&
           !state.leaving;
}

std::vector<Missed> Member::missed() const {
    const State& state = *state_;
    std::vector<Missed> missed;
    if (state.line.empty()) return missed;
    for (const NodeId peer : state.tip().neighbours(state.self())) {
        const auto at = state.connections.find(peer);
        if (at == state.connections.end()) {
            const auto since = state.missing_since.find(peer);
            missed.push_back({.peer = peer,
                              .connected = false,
                              .silent_for = since == state.missing_since.end() ? 0 : state.now - since->second});
        } else if (state.now - at->second.last_heard > 2 * state.options.heartbeat) {
            missed.push_back({.peer = peer, .connected = true, .silent_for = state.now - at->second.last_heard});
        }
    }
    return missed;
}

std::vector<NodeId> Member::awaited() const {
    if (!state_->proposal || !state_->proposal->flush) return {};
    return {state_->proposal->awaited.begin(), state_->proposal->awaited.end()};
}

DecidePtr Member::decision(const View& view) const {
    for (const Line* line : {&state_->line, &state_->past}) {
        if (line->empty()) continue;
        if (const DecidePtr led = line->decision(view.epoch); led && name_of(led->delta) == view.name) return led;
    }
    return nullptr;
}

std::string Member::why() const {
    const State& state = *state_;
    switch (state.role) {
        case Role::outside:
            return "this node has no cluster; found one or join one";
        case Role::joining:
            if (!state.refusal.empty()) return "was refused: " + printable(state.refusal) + "; goes on asking";
            return state.founding_waits.empty() ? "asks to be let in" : state.founding_waits;
        case Role::syncing:
            return "pulls the state from its neighbours";
        case Role::returning:
            if (!state.founding_waits.empty()) return "came back from a restart; " + state.founding_waits;
            return "came back from a restart; looks for the others of view " + brief(state.tip().name) +
                   (state.recovery() ? ", of which " + state.too_few() : "");
        case Role::active:
            break;
    }
    if (state.without_quorum_since != never)
        return "too few members of view " + brief(state.tip().name) + " are reached to decide anything";
    if (state.stopped && state.recovery()) return "of view " + brief(state.tip().name) + " " + state.too_few();
    if (state.stopped) return "a step was interrupted; waits for its settlement";
    if (state.taking) return "takes the result of a settled step";
    if (state.leaving) return "leaves as soon as the others go on without it";
    return "trains step " + std::to_string(state.applied);
}

// ---- State: time and training

// Whatever was late on our side says nothing about others: they may have spoken all the while.
void Member::State::excuse_lateness() {
    const Nanoseconds late = now - ticked_at - options.heartbeat;
    if (late <= options.heartbeat) return;
    for (auto& [peer, connection] : connections) connection.last_heard = now;
    for (auto& [peer, since] : missing_since) since = now;
    if (without_quorum_since != never) without_quorum_since += late;
    if (founding_since != never) founding_since += late;
    if (proposal) proposal->deadline += late;
    ticked_at = now;
    late_until = now + 2 * options.heartbeat;
}

void Member::State::tick() {
    if (now < beat_at && now >= next_silence()) {
        detect();
        if (gone) return;
    }
    if (now >= beat_at) {
        beat_at = now + options.heartbeat;
        ticked_at = now;
        detect();
        if (gone) return;
        send_heartbeats();
        keep_connections();
        mind_link_wishes();
        say_measured();
        repeat_own();
        if (role == Role::joining || role == Role::returning) continue_joining();
        take_what_others_have();
        if (role == Role::active || role == Role::syncing) repair_overlay();
        if (leaving) finish_leaving();
        consider_proposing();
    }
    if (proposal && now >= proposal->resend_at) repeat_proposal();
    if (now >= propose_at) {
        propose_at = never;
        propose();
    }
}

bool Member::State::behind() const {
    const MemberInfo* me = tip().find(self());
    return taking || (me != nullptr && me->standing == Standing::active && me->first_step > applied);
}

// Revoked or expelled: there is no use in asking again.
bool Member::State::barred(const View& view) const {
    if (!vouched) return view.revokes(self(), {});
    return view.revokes(self(), vouched->institution) ||
           (vouched->token && view.revokes(vouched->token->id, vouched->institution));
}

bool Member::State::votes() const {
    if (line.empty()) return false;
    if (role == Role::active) return tip().has(identity.member) && tip().is_active(self());
    return role == Role::returning && tip().is_active(self());
}

Nanoseconds Member::State::spread() const {
    // How long a flood takes to reach everybody. Exact where that is cheap, else a guess by the size of the overlay.
    constexpr std::size_t exact_members = 128;
    const View& view = tip();
    if (view.members.size() <= exact_members) return std::max<Nanoseconds>(eccentricity(view, self()), millisecond);
    std::uint32_t slowest = 1000;
    for (const LinkInfo& link : view.links) slowest = std::max(slowest, link.figures.delay_us);
    Nanoseconds hops = 2;
    for (std::size_t reached = 1; reached < view.members.size(); reached *= 3) ++hops;
    return hops * slowest * 1000;
}

void Member::State::maybe_start_step() {
    if (role != Role::active || stopped || taking) return;
    const ViewPtr governing = line.governing(applied);
    if (!governing) return;
    if (!governing->has(identity.member) || !governing->is_active(self())) {
        // Its last step is done. A leaver still waits until the others have gone on without it.
        const ViewPtr last = tip().first_step > 0 ? line.governing(tip().first_step - 1) : nullptr;
        const bool still_to_come = last && applied < tip().first_step && last->has(identity.member);
        if (!tip().has(identity.member) && !still_to_come) {
            running_view = {};
            if (leaving) return finish_leaving();
            // Others may still need the result from it (detect() sees when not).
            if (!tip().settlement && !connections.empty()) return;
            exclude(why_without_us(), barred(tip()));
        }
        return;
    }
    if (governing->first_step > applied) return;
    const MemberInfo* me = governing->find(self());
    if (me->first_step > applied) return;  // results up to its first step are still on their way
    // Having voted for a change from this step on, it contributes to it under the next view only.
    if (!CHAOS_PLANTED(promise_not_kept) && acceptor.accepted && acceptor.accepted->delta.first_step <= applied &&
        !acceptor.accepted->delta.settlement)
        return;
    if (running_view == governing->name) return;
    running_view = governing->name;
    step_failed = false;
    gave_up_at = never;
    started = std::max(started, applied + 1);
    step_began_at = now;
    act(StartStep{.step = applied, .view = governing});
}

void Member::State::on_applied(const Applied& event) {
    // What was reported in a flush stays true until it is settled.
    CHAOS_ASSERT(role != Role::active || !stopped);
    if (role == Role::syncing || (role == Role::active && running_view == Name{} && !taking)) {
        // A joiner follows, or a newly active one takes what is between its state and its first step.
        applied = std::max(applied, event.step + 1);
        stable = std::max(stable, event.step);
        catching_up_since = now;
        maybe_start_step();
        return;
    }
    // Whoever is far behind may take the whole state instead of single results.
    if (role != Role::active || event.step < applied || (event.step > applied && !taking)) return;
    if (!taking && step_began_at > 0) {
        const Nanoseconds took = now - step_began_at;
        step_time = step_time == 0 ? took : (3 * step_time + took) / 4;
    }
    applied = event.step + 1;
    stable = std::max(stable, event.step);
    taking = false;
    running_view = {};
    maybe_start_step();
}

void Member::State::on_step_failed(const StepFailed& event) {
    if (role != Role::active || stopped || running_view != event.view || event.step != applied) return;
    step_failed = true;
    say_broken();
}

// A step that failed is settled together with what it failed of. Where that is whole again, nobody else would ask.
void Member::State::say_broken() {
    const bool other_cause =
        std::ranges::any_of(own, [](const auto& entry) { return entry.first.kind == RequestKind::link_down; });
    if (!step_failed || stopped || running_view == Name{} || other_cause || !tip().has(identity.member)) return;
    Request request;
    request.kind = RequestKind::broken;
    request.name = tip().name;
    ask_for(std::move(request));
}

void Member::State::on_synced(const Synced& event) {
    if (role != Role::syncing) return;
    applied = event.applied;
    stable = event.applied;
    started = event.applied;
    Request request;
    request.kind = RequestKind::activate;
    request.subject = identity.member;
    request.name = event.root;
    request.value = event.applied;
    ask_for(std::move(request));
}

// Asks to be let go, until the others have gone on without this node.
void Member::State::finish_leaving() {
    if (role == Role::active || role == Role::syncing) {
        const View& view = tip();
        if (view.has(identity.member)) {
            // The last active member waits until there is another.
            Request request;
            request.kind = RequestKind::leave;
            request.subject = request.stamp.author = identity.member;
            if (fitness(view, request, nullptr).kind == Fitness::Kind::fits && !own.contains(key_of(request)))
                ask_for(std::move(request));
            return;
        }
        // Step first_step was completed without us: everybody has what we could have given.
        const bool passed = std::ranges::any_of(connections, [&](const auto& entry) {
            return entry.second.applied > view.first_step && line.contains(entry.second.view, entry.second.epoch);
        });
        if (role == Role::active && !connections.empty() && !passed) return;
    }
    while (!connections.empty()) drop(connections.begin()->first, "left the cluster");
    gone = true;
    role = Role::outside;
    act(Left{});
}

void Member::State::exclude(const std::string& why, bool final) {
    while (!link_wishes.empty()) refuse_link(link_wishes.begin()->first, "this node is out: " + why);
    std::vector<Candidate> contacts;
    if (!line.empty())
        for (const MemberInfo& member : tip().members)
            if (member.id.node != self()) contacts.push_back({.node = member.id.node, .address = member.address});
    if (running_view != Name{} && !stopped) act(StopStep{});
    act(Excluded{.why = why, .final = final});
    running_view = {};
    stopped = taking = false;
    forget_ballots();
    pending.clear();
    pending_since.clear();
    own.clear();
    early.clear();
    votes_seen.clear();
    missing_since.clear();
    wanted_links.clear();
    past = std::move(line);
    line.clear();
    if (final || leaving) {
        while (!connections.empty()) drop(connections.begin()->first, why);
        gone = true;
        role = Role::outside;
        if (leaving) act(Left{});
        return;
    }
    ++identity.member.incarnation;
    role = Role::joining;
    // Others must hear of the new life before anything else.
    for (const auto& [peer, connection] : connections) send(peer, hello());
    start_joining(std::move(contacts));
}

bool Seen::add(std::uint64_t hash, NodeId from) {
    constexpr std::size_t kept = 4096;
    if (!from_.emplace(hash, from).second) return false;
    order_.push_back(hash);
    if (order_.size() > kept) {
        from_.erase(order_.front());
        order_.pop_front();
    }
    return true;
}

const NodeId* Seen::upstream(std::uint64_t hash) const {
    const auto at = from_.find(hash);
    return at == from_.end() ? nullptr : &at->second;
}

}  // namespace chaos::cluster
