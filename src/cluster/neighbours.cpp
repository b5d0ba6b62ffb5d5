// Connections: greeting, heartbeats, the detection of silence, and an overlay that stays whole.
#include "base/words.h"
#include "cluster/state.h"

#include <algorithm>

namespace chaos::cluster {

void Member::State::dial(NodeId peer, const std::string& address) {
    if (peer == self() || connections.contains(peer) || !dialling.emplace(peer, now).second) return;
    act(Dial{.peer = peer, .address = address});
}

void Member::State::on_link_up(NodeId peer) {
    Connection fresh;
    fresh.up_since = fresh.last_heard = fresh.needed_at = now;
    // Standing up a connection took a round trip at least: a first guess.
    if (const auto dialled = dialling.find(peer); dialled != dialling.end()) fresh.round_trip = now - dialled->second;
    dialling.erase(peer);
    missing_since.erase(peer);
    connections[peer] = fresh;
    greet(peer, connections[peer]);
}

void Member::State::on_link_closed(NodeId peer) {
    dialling.erase(peer);
    const auto at = connections.find(peer);
    if (at == connections.end()) return;
    // What piled up while our own loop stood still says little about others.
    const bool process_ended = !at->second.said_bye && now >= late_until;
    connections.erase(at);
    lose_link(peer, process_ended ? Reason::closed : Reason::silent);
}

void Member::State::on_dial_failed(NodeId peer) {
    dialling.erase(peer);
    const auto wish = link_wishes.find(peer);
    if (wish == link_wishes.end() || !wish->second.connect || wish->second.agreed || connections.contains(peer)) return;
    const MemberInfo* member = line.empty() ? nullptr : tip().find(peer);
    const bool dialled = member != nullptr && !member->address.empty();
    refuse_link(peer, dialled ? "it is not reached at " + printable(member->address)
                              : "it has no address where it could be dialled; ask for the link at that node");
}

// Closes a connection on purpose, and says so.
void Member::State::drop(NodeId peer, const std::string& reason) {
    send(peer, make_message(Bye{.reason = reason}));
    act(CloseLink{peer});
    connections.erase(peer);
}

// A link of the view is dead: the view must learn it.
void Member::State::lose_link(NodeId peer, Reason reason) {
    if (line.empty() || (role != Role::active && role != Role::syncing)) return;
    const LinkId link = link_between(self(), peer);
    if (tip().find(link) == nullptr || !tip().has(identity.member)) return;
    Request request;
    request.kind = RequestKind::link_down;
    request.link = link;
    request.reason = reason;
    ask_for(std::move(request));
}

RequestKey Member::State::down_request(NodeId peer) const {
    return {
        .kind = RequestKind::link_down, .subject = {}, .link = link_between(self(), peer), .name = {}, .author = {}};
}

// The link stands again before the view changed: what was said about it is withdrawn. Not if the other end has gone
// over to another line meanwhile, as those do who were cut off from everybody: it takes no part in this one any more.
void Member::State::regain_link(NodeId peer, const Connection& connection) {
    const RequestKey said = down_request(peer);
    if (!own.contains(said) && !pending.contains(said)) return;
    const MemberInfo* known = tip().find(peer);
    if (known == nullptr || known->id != connection.member || !line.contains(connection.view, connection.epoch)) return;
    if (tip().find(said.link) == nullptr || !tip().has(identity.member)) return;
    own.erase(said);
    Request request;
    request.link = said.link;
    request.kind = RequestKind::link_up;
    on_flooded(self(),
               make_signed(std::move(request), identity.member, static_cast<std::uint32_t>(now / millisecond), signer));
    if (!gone && !line.empty()) say_broken();
}

MessagePtr Member::State::hello() const {
    Hello hello;
    hello.member = identity.member;
    hello.role = role;
    hello.run = identity.run;
    hello.settings = identity.settings;
    if (!line.empty()) {
        hello.founder = tip().founder;
        hello.view = tip().name;
        hello.epoch = tip().epoch;
    }
    return make_message(hello);
}

// Says Hello, but not over and over.
void Member::State::greet(NodeId peer, Connection& connection) {
    if (connection.hello_sent_at != 0 && now - connection.hello_sent_at < options.heartbeat) return;
    connection.hello_sent_at = now;
    send(peer, hello());
}

void Member::State::on_hello(NodeId from, const Hello& hello) {
    Connection& connection = connections.at(from);
    if (hello.member.node != from) {
        ++counters.forged;
        return;
    }
    if (hello.version != protocol_version || hello.run != identity.run || hello.settings != identity.settings) {
        const std::string why = hello.version != protocol_version ? "it speaks another version of the protocol"
                                : hello.run != identity.run
                                    ? "it trains another run"
                                    : "its run file has other train.steps, train.eval_every or train.verify_every";
        note("refused a link with " + brief(from) + ": " + why, About::refused);
        ++counters.refused;
        return drop(from, why);
    }
    connection.greeted = true;
    greet(from, connection);
    connection.member = hello.member;
    connection.role = hello.role;
    connection.view = hello.view;
    connection.epoch = hello.epoch;
    connection.needed_at = now;
    if (!line.empty()) {
        const MemberInfo* known = tip().find(from);
        if (known != nullptr && known->id.incarnation < hello.member.incarnation) {
            lose_link(from, Reason::closed);  // a new life of a member: the old one is dead
        } else {
            regain_link(from, connection);
        }
        if (gone || !connections.contains(from)) return;
    }
    if (hello.epoch > 0 || hello.founder != Name{}) compare_lines(from, hello.view, hello.epoch);
    if (const auto wanted = wanted_links.find(from); wanted != wanted_links.end())
        send(from, make_message(LinkOffer{identity.member}));
    if (role == Role::joining) continue_joining();
    consider_proposing();
}

void Member::State::on_heartbeat(NodeId from, const Heartbeat& beat) {
    Connection& connection = connections.at(from);
    connection.their_sent_at = beat.sent_at;
    connection.their_heard_at = now;
    connection.role = beat.role;
    connection.member = {.node = from, .incarnation = beat.incarnation};
    connection.view = beat.view;
    connection.epoch = beat.epoch;
    connection.applied = beat.applied;
    if (beat.echo > 0 && beat.echo <= now && beat.held >= 0 && beat.held <= now - beat.echo) {
        const Nanoseconds sample = now - beat.echo - beat.held;
        connection.round_trip = connection.round_trip == 0 ? sample : (7 * connection.round_trip + sample) / 8;
    }
    learn_stable();
    if (!connection.greeted) return greet(from, connection);  // its Hello was lost; ours makes it say it again
    // What the other end says of the link is for itself to withdraw: it may not hear us.
    if (!line.empty() && own.contains(down_request(from))) regain_link(from, connection);
    if (beat.view != Name{}) compare_lines(from, beat.view, beat.epoch);
}

// What every active member says to have applied is stable. Where one of them is no neighbour, only the completion of
// the next step tells.
void Member::State::learn_stable() {
    if (role != Role::active || !tip().has(identity.member)) return;
    std::uint64_t least = applied;
    for (const MemberInfo& member : tip().members) {
        if (member.standing != Standing::active || member.id == identity.member) continue;
        const auto at = connections.find(member.id.node);
        const bool known = at != connections.end() && at->second.member == member.id &&
                           at->second.role == Role::active && at->second.view == tip().name;
        if (!known) return;
        least = std::min(least, at->second.applied);
    }
    stable = std::max(stable, least);
}

// What this end knows about a link: each end speaks of what it receives.
void Member::State::send_heartbeats() {
    Heartbeat beat;
    beat.incarnation = identity.member.incarnation;
    beat.role = role;
    if (!line.empty()) {
        beat.epoch = tip().epoch;
        beat.view = tip().name;
    }
    beat.applied = applied;
    beat.sent_at = now;
    for (const auto& [peer, connection] : connections) {
        beat.echo = connection.their_sent_at;
        beat.held = connection.their_sent_at > 0 ? now - connection.their_heard_at : 0;
        send(peer, make_message(beat));
    }
}

// When a connection will have been silent for too long, if nothing comes.
Nanoseconds Member::State::next_silence() const {
    Nanoseconds at = never;
    for (const auto& [peer, connection] : connections) at = std::min(at, connection.last_heard + options.detect);
    return at;
}

// Silence fails a link. Only after our own loop was on time (excuse_lateness).
void Member::State::detect() {
    std::vector<NodeId> silent;
    for (const auto& [peer, connection] : connections)
        if (now - connection.last_heard >= options.detect) silent.push_back(peer);
    for (const NodeId peer : silent) {
        if (!connections.contains(peer)) continue;
        drop(peer, "nothing was heard");
        lose_link(peer, Reason::silent);
    }
    // Saying that something is lost may at once lead to the next view, or to none: then the next tick looks again.
    if (line.empty()) return;
    if (!tip().has(identity.member)) return leave_when_passed_over();
    const ViewPtr before = line.tip();
    const auto same = [&] { return !line.empty() && line.tip() == before; };
    miss_results();
    if (same()) miss_neighbours();
    if (same()) miss_those_who_left();
    if (same()) say_broken();
}

// On its way out; nobody may be there any more to whom it could give its last steps.
void Member::State::leave_when_passed_over() {
    const bool among_members =
        std::ranges::any_of(connections, [&](const auto& entry) { return tip().has(entry.second.member); });
    const bool passed = std::ranges::any_of(connections, [&](const auto& entry) {
        return entry.second.applied > tip().first_step && line.contains(entry.second.view, entry.second.epoch);
    });
    const bool late = now - step_began_at > 8 * options.detect + 2 * step_time;
    if (role == Role::active && !leaving && (connections.empty() || passed || (!among_members && late)))
        exclude(why_without_us(), barred(tip()));
}

// The others must settle what this member cannot go on from. It still votes on that.
void Member::State::say_stuck() {
    Request request;
    request.kind = RequestKind::stuck;
    request.name = tip().name;
    ask_for(std::move(request));
}

// Results that a member lacks may be nowhere to be had. Who was let in for a step to come lacks nothing while nobody is
// further than itself: steps may take as long as they like.
void Member::State::miss_results() {
    if (role != Role::active || !behind() || stopped) return;
    const bool others_have = std::ranges::any_of(connections, [&](const auto& entry) {
        return entry.second.applied > applied && line.contains(entry.second.view, entry.second.epoch);
    });
    if (!taking && !others_have) catching_up_since = now;
    if (now - catching_up_since > 8 * options.detect) say_stuck();
}

// Links of the view that have no connection: dial, and give up in time.
void Member::State::miss_neighbours() {
    const ViewPtr view = line.tip();
    const std::vector<NodeId> around = view->neighbours(self());
    for (const NodeId peer : around) {
        if (const auto at = connections.find(peer); at != connections.end()) {
            // Another life of that node: the member is dead.
            if (at->second.greeted && at->second.member > view->find(peer)->id) lose_link(peer, Reason::closed);
        } else {
            const auto [since, fresh] = missing_since.emplace(peer, now);
            if (fresh) dial(peer, view->find(peer)->address);
            if (now - since->second > options.detect) lose_link(peer, Reason::silent);
        }
        if (line.empty() || line.tip() != view) return;
    }
    const bool alone = std::ranges::all_of(around, [&](NodeId peer) {
        const auto since = missing_since.find(peer);
        return since != missing_since.end() && now - since->second > 8 * options.detect;
    });
    if (role == Role::syncing && alone) return exclude("none of its neighbours is there any more", false);
    std::erase_if(missing_since, [&](const auto& entry) {
        return connections.contains(entry.first) || view->find(link_between(self(), entry.first)) == nullptr;
    });
}

// Members and links that the tip no longer lists may still owe steps to the view that governs them.
void Member::State::miss_those_who_left() {
    const ViewPtr governing = line.governing(applied);
    const bool takes_part = role == Role::active && running_view != Name{};  // in a step; not taking a settled result
    if (!takes_part || !governing || governing->epoch == tip().epoch || applied >= tip().first_step) return;
    for (const NodeId peer : governing->neighbours(self())) {
        const MemberInfo* member = governing->find(peer);
        if (member->standing != Standing::active) continue;
        if (tip().has(member->id) && tip().find(link_between(self(), peer)) != nullptr) continue;
        const auto at = connections.find(peer);
        if (at != connections.end() && (!at->second.greeted || at->second.member == member->id)) continue;
        return say_stuck();
    }
}

// Whether a connection is there for a reason.
bool Member::State::serves(NodeId peer, const Connection& connection) const {
    if (role == Role::joining || role == Role::returning || role == Role::outside) return true;
    const bool waits = connection.role == Role::joining || connection.role == Role::returning;
    if (!connection.greeted || (waits && connection.refusal.empty())) return true;
    if (wanted_links.contains(peer)) return true;
    const LinkId link = link_between(self(), peer);
    if (tip().find(link) != nullptr) return true;
    const ViewPtr governing = line.governing(applied);
    return governing && governing->find(link) != nullptr;
}

void Member::State::keep_connections() {
    const Nanoseconds patience = 8 * options.detect;
    std::vector<NodeId> idle;
    for (auto& [peer, connection] : connections) {
        if (serves(peer, connection)) {
            // A newcomer that never gets in does not stay for ever.
            if (connection.role != Role::joining || now - connection.up_since < 4 * patience)
                connection.needed_at = now;
        }
        if (now - connection.needed_at > patience) idle.push_back(peer);
    }
    for (const NodeId peer : idle) drop(peer, "no link was agreed");
    std::erase_if(wanted_links, [&](const auto& entry) { return now > entry.second; });
}

void Member::State::remember_lost(const Candidate& candidate) {
    constexpr std::size_t lost_kept = 64;
    if (candidate.node == self()) return;
    if (const auto known = std::ranges::find(lost, candidate.node, &Candidate::node); known != lost.end()) {
        known->address = candidate.address;  // of two lives that were lost, the later one may have had another
        return;
    }
    lost.push_back(candidate);
    if (lost.size() > lost_kept) lost.pop_front();
}

// Neighbours that have gone past the step that we are stuck in have its result.
void Member::State::take_what_others_have() {
    const bool stuck = role == Role::active && running_view != Name{} && !stopped && !taking &&
                       now - std::max(step_began_at, took_at) > options.detect;
    if (!stuck) return;
    // Whoever said so did not give it. What was given up for that is settled.
    if (gave_up_at != never && now - gave_up_at > 4 * options.detect) {
        step_failed = true;
        return say_broken();
    }
    std::vector<NodeId> holders;
    for (const auto& [peer, connection] : connections)
        if (connection.applied > applied && line.contains(connection.view, connection.epoch)) holders.push_back(peer);
    if (holders.empty()) return;
    took_at = now;
    gave_up_at = std::min(gave_up_at, now);
    act(TakeResult{.step = applied, .holders = std::move(holders)});
}

// Keeps the overlay whole; and whoever failed may be back, or lead a line of its own.
void Member::State::repair_overlay() {
    if (now < repair_at || !tip().has(identity.member)) return;
    repair_at = now + 2 * options.detect;
    if (role == Role::active) {
        look_for_links();
        look_past_a_neighbour();
    }
    link_around_leavers();
    const View& view = tip();
    for (const NodeId peer : view.neighbours(self()))
        if (!connections.contains(peer)) dial(peer, view.find(peer)->address);
    // Where nothing goes on, the way out may lead over anybody.
    if (stopped) {
        const MemberInfo& member = view.members[(self().low + ++repairs) % view.members.size()];
        dial(member.id.node, member.address);
    }
    if (!lost.empty()) {
        Candidate candidate = lost.front();
        lost.pop_front();
        if (view.find(candidate.node) == nullptr) {
            dial(candidate.node, candidate.address);
            lost.push_back(std::move(candidate));
        }
    }
}

// A member with too few links looks for more.
void Member::State::look_for_links() {
    const View& view = tip();
    if (view.degree(self()) >= std::min<std::size_t>(options.links_wanted, view.members.size() - 1)) return;
    std::vector<NodeId> candidates;
    for (const MemberInfo& member : view.members) {
        const NodeId node = member.id.node;
        if (node != self() && member.standing == Standing::active && !given_up.contains(node) &&
            view.find(link_between(self(), node)) == nullptr)
            candidates.push_back(node);
    }
    if (candidates.empty()) return;
    const std::uint64_t choice = self().low * 0x9e3779b97f4a7c15U + ++repairs * 0xbf58476d1ce4e5b9U;
    want_link(candidates[(choice >> 32) % candidates.size()]);
}

// No single member should be all that holds the overlay together: looks at one neighbour at a time.
void Member::State::look_past_a_neighbour() {
    const View& view = tip();
    const std::vector<NodeId> around = view.neighbours(self());
    if (around.empty()) return;
    const std::vector<NodeId> behind = cut_off_by(view, around[++repairs % around.size()]);
    if (!std::ranges::binary_search(behind, self())) return;
    for (std::size_t i = 0; i < view.members.size(); ++i) {
        const MemberInfo& member = view.members[(self().low + repairs + i) % view.members.size()];
        const NodeId node = member.id.node;
        if (member.standing == Standing::active && !given_up.contains(node) &&
            !std::ranges::binary_search(behind, node) && view.find(link_between(self(), node)) == nullptr)
            return want_link(node);
    }
}

// Neighbours of one who wants to leave link up around it, all with the same one among them; also where such a link was
// given up: the others shall not be thrown out.
void Member::State::link_around_leavers() {
    const View& view = tip();
    for (const auto& [key, request] : pending) {
        if (key.kind != RequestKind::leave || view.find(link_between(self(), key.subject.node)) == nullptr) continue;
        if (cut_off_by(view, key.subject.node).empty()) continue;
        for (const NodeId hub : view.neighbours(key.subject.node)) {
            if (!view.is_active(hub)) continue;
            if (hub != self() && view.find(link_between(self(), hub)) == nullptr) want_link(hub);
            break;
        }
    }
}

// To every neighbour that takes part in our line, but the one it came from.
void Member::State::flood(const MessagePtr& message, NodeId except) {
    if (line.empty()) return;
    const ViewPtr governing = line.governing(applied);
    for (const auto& [peer, connection] : connections) {
        if (peer == except || !connection.greeted) continue;
        if (tip().find(peer) != nullptr || (governing && governing != line.tip() && governing->find(peer) != nullptr))
            send(peer, message);
    }
}

}  // namespace chaos::cluster
