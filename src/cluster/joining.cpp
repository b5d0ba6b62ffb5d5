// The way in, and links between members. A newcomer asks any member, agrees on links with several, shows their consents
// to one of them, who asks the cluster for a view that lists it:
//
//   newcomer                     any member             candidates
//      | ── Ask ──────────────────► |                        |
//      | ◄── Answer (candidates) ── |                        |
//      | ── LinkOffer ───────────────────────────────────────► |      each decides by its own policy
//      | ◄── LinkConsent (signed) ────────────────────────── |
//      | ── Request join (consents) ► | ── flooded ──► ...
//      | ◄── History: the view that lists it
#include "base/words.h"
#include "cluster/state.h"
#include "cluster/trust.h"

#include <algorithm>

namespace chaos::cluster {
namespace {

// For wishes, in units of Options::resend.
constexpr Nanoseconds offer_patience = 8;  // until the other end answers
constexpr Nanoseconds wish_patience = 60;  // until the members agree

}  // namespace

MemberInfo Member::State::info() const {
    MemberInfo info;
    info.id = identity.member;
    if (vouched) info.institution = vouched->institution;
    info.speed = identity.speed;
    info.address = identity.address;
    return info;
}

Newcomer Member::State::newcomer() const {
    return {.info = info(), .credential = identity.credential, .token = vouched ? vouched->token : std::nullopt};
}

void Member::State::start_joining(std::vector<Candidate> contacts) {
    // Those it was told of before may know more than those it was a member with last.
    constexpr std::size_t contacts_kept = 256;
    for (Candidate& known : join.contacts)
        if (contacts.size() < contacts_kept &&
            std::ranges::find(contacts, known.node, &Candidate::node) == contacts.end())
            contacts.push_back(std::move(known));
    role = Role::joining;
    join = {};
    join.contacts = std::move(contacts);
    join.dial_at = now;
    continue_joining();
}

void Member::State::continue_joining() {
    if (now >= join.dial_at && !join.contacts.empty()) {
        join.dial_at = now + options.resend;
        // Several at once: any of them may be the one that is up.
        constexpr std::size_t dialled_at_once = 4;
        for (std::size_t i = 0; i < std::min(dialled_at_once, join.contacts.size()); ++i) {
            const Candidate& contact = join.contacts[join.next_contact++ % join.contacts.size()];
            if (!join.sponsor) dial(contact.node, contact.address);
        }
    }
    if (role != Role::joining) return;

    if (now >= join.give_up_at) {
        // Whoever welcomed us is gone, or the links were: begin again.
        std::vector<Candidate> contacts = std::move(join.contacts);
        const std::size_t next = join.next_contact;
        join = {};
        join.contacts = std::move(contacts);
        join.next_contact = next;
        join.dial_at = now;
    }
    if (!join.sponsor) {
        if (join.asked_at != 0 && now - join.asked_at < options.resend) return;
        for (const auto& [peer, connection] : connections) {
            if (!connection.greeted || connection.role != Role::active) continue;
            join.asked_at = now;
            join.asked.insert(peer);
            send(peer, make_message(Ask{.run = identity.run, .newcomer = newcomer()}));
        }
        return;
    }
    for (const Candidate& candidate : join.candidates) {
        if (join.offered.size() >= options.links_wanted) break;
        const auto at = connections.find(candidate.node);
        if (at == connections.end()) {
            dial(candidate.node, candidate.address);
        } else if (at->second.greeted && join.offered.insert(candidate.node).second) {
            send(candidate.node, make_message(LinkOffer{identity.member}));
        }
    }
    // Those who decline are no candidates any more.
    const std::size_t wanted = std::min<std::size_t>(options.links_wanted, join.candidates.size());
    const bool enough = join.consents.size() >= wanted || now >= join.offers_until;
    if (join.consents.empty() || !enough || now < join.request_at) return;
    join.request_at = now + options.resend;
    Request request;
    request.kind = RequestKind::join;
    request.subject = identity.member;
    request.newcomer = newcomer();
    for (const auto& [peer, consent] : join.consents) {
        request.consents.push_back(consent);
        if (const auto at = connections.find(peer); at != connections.end())
            request.claims.push_back({.id = link_between(self(), peer), .figures = measured(peer, at->second)});
    }
    const MessagePtr message = make_signed(std::move(request), identity.member, ++join.attempt, signer);
    // To whoever consented: any of them can speak for us. And who knows whether we are in already?
    for (const auto& [peer, consent] : join.consents) {
        if (!connections.contains(peer)) continue;
        send(peer, message);
        if (join.attempt > 1) send(peer, make_message(CatchUp{}));
        if (join.attempt % 4 != 0) break;
    }
}

// Says why, each time it is asked; the log hears it once.
void Member::State::turn_away(NodeId from, const std::string& why) {
    ++counters.refused;
    std::string& told = connections.at(from).refusal;
    if (told != why) note("does not let " + brief(from) + " in: " + why, About::refused);
    told = why;
    send(from, make_message(Answer{.refusal = why, .candidates = {}}));
}

void Member::State::on_ask(NodeId from, const Ask& ask) {
    if (role != Role::active || !tip().has(identity.member))
        return turn_away(from, "this node is not an active member itself; ask another");
    const MemberInfo& asker = ask.newcomer.info;
    if (asker.id.node != from) {
        ++counters.forged;
        return;
    }
    if (ask.run != tip().run) return turn_away(from, "this cluster trains another run");
    if (const Result<void> proven = proves(ask.newcomer, signer); !proven)
        return turn_away(from, proven.error().message);
    const Vouched shown{.institution = asker.institution, .token = ask.newcomer.token};
    if (const Result<void> entry = admits(tip(), from, shown); !entry) return turn_away(from, entry.error().message);
    if (const MemberInfo* known = tip().find(from); known != nullptr && known->id != asker.id)
        return turn_away(from, "this key is a member already, by another life that has not been missed yet");
    if (tip().has(asker.id)) return send_whole(from);
    connections.at(from).role = Role::joining;
    connections.at(from).refusal.clear();
    Answer reply;
    // Those with few links first; ties in an order that differs from newcomer to newcomer.
    std::vector<std::tuple<std::size_t, std::uint64_t, const MemberInfo*>> order;
    for (const MemberInfo& member : tip().members) {
        if (member.standing != Standing::active) continue;
        const std::size_t degree = tip().degree(member.id.node);
        if (degree >= options.links_allowed) continue;
        const std::uint64_t spread_out = (member.id.node.low ^ from.low) * 0x9e3779b97f4a7c15U;
        order.emplace_back(degree, spread_out, &member);
    }
    std::ranges::sort(order);
    constexpr std::size_t candidates_told = 12;
    for (const auto& [degree, tie, member] : order) {
        if (reply.candidates.size() == candidates_told) break;
        reply.candidates.push_back({.node = member->id.node, .address = member->address});
    }
    send(from, make_message(std::move(reply)));
}

void Member::State::on_answer(NodeId from, const Answer& answer) {
    if (role != Role::joining || join.sponsor) return;
    if (!answer.refusal.empty()) {
        if (refusal != answer.refusal)
            note("was refused by " + brief(from) + ": " + printable(answer.refusal), About::was_refused);
        refusal = answer.refusal;
        return;
    }
    refusal.clear();
    join.sponsor = from;
    join.candidates = answer.candidates;
    join.offers_until = now + 2 * options.resend;
    join.give_up_at = now + 20 * options.resend;
    continue_joining();
}

// Links of the view, and those that were agreed to and wait for one.
// To others than this one: links there are, that were asked for, or that this node has just consented to.
std::size_t Member::State::links_promised(NodeId except) {
    const std::vector<NodeId> around = tip().neighbours(self());
    std::set<NodeId> peers(around.begin(), around.end());
    for (const auto& [key, request] : pending) {
        if (key.kind == RequestKind::connect && key.link.touches(self())) peers.insert(key.link.other(self()));
        if (key.kind == RequestKind::join &&
            std::ranges::any_of(request.consents, [&](const LinkConsent& c) { return c.stamp.author.node == self(); }))
            peers.insert(key.subject.node);
    }
    std::erase_if(consented_at, [&](const auto& entry) { return now - entry.second > options.detect + 4 * spread(); });
    for (const auto& [peer, when] : consented_at) peers.insert(peer);
    peers.erase(except);
    return peers.size();
}

void Member::State::on_offer(NodeId from, const LinkOffer& offer) {
    if (offer.from.node != from) {
        ++counters.forged;
        return;
    }
    LinkConsent consent;
    consent.offerer = offer.from;
    if (!line.empty()) consent.epoch = tip().epoch;
    if (role != Role::active || !tip().has(identity.member)) {
        consent.refusal = "not an active member";
    } else if (links_promised(from) >= options.links_allowed) {
        consent.refusal = "it has as many links as it wants";
    }
    if (consent.refusal.empty())
        consented_at[from] = now;
    else
        ++counters.refused;
    send(from, make_signed(std::move(consent), identity.member, 0, signer));
}

void Member::State::on_consent(NodeId from, const LinkConsent& consent, const Message& message) {
    if (consent.stamp.author.node != from || consent.offerer != identity.member || !signature_fits(message, signer)) {
        ++counters.forged;
        return;
    }
    if (!consent.refusal.empty()) {
        const std::string why = printable(consent.refusal);
        note(brief(from) + " declined a link: " + why, About::was_refused);
        wanted_links.erase(from);
        if (const auto wish = link_wishes.find(from); wish != link_wishes.end() && wish->second.connect)
            refuse_link(from, "it declined: " + why);
        join.offered.erase(from);
        std::erase_if(join.candidates, [&](const Candidate& candidate) { return candidate.node == from; });
        // Nobody is left to ask: soon there may be others.
        if (role == Role::joining && join.candidates.empty() && join.consents.empty())
            join.give_up_at = std::min(join.give_up_at, now + 2 * options.resend);
        return;
    }
    if (role == Role::joining) {
        if (!join.offered.contains(from)) {
            ++counters.refused;
            return;
        }
        join.consents[from] = consent;
        continue_joining();
    } else if (role == Role::active && wanted_links.contains(from)) {
        Request request;
        request.kind = RequestKind::connect;
        request.link = link_between(self(), from);
        request.consents.push_back(consent);
        request.figures = measured(from, connections.at(from));
        if (const auto wish = link_wishes.find(from); wish != link_wishes.end() && wish->second.connect)
            wish->second = {.connect = true, .agreed = true, .until = now + wish_patience * options.resend};
        ask_for(std::move(request));
    }
}

// A newcomer shows its consents: speak for it.
void Member::State::on_join_request(NodeId from, const Request& request) {
    if (request.subject.node != from || request.stamp.author != request.subject || role != Role::active) {
        ++counters.refused;
        return;
    }
    connections.at(from).role = Role::joining;
    const Fitness fit = fitness(tip(), request, &signer);
    if (fit.kind == Fitness::Kind::done) return send_whole(from);
    if (fit.kind == Fitness::Kind::refused) return turn_away(from, fit.why);
    if (!pending.contains(key_of(request))) ask_for(request);
}

// With a member there is no link with yet.
void Member::State::want_link(NodeId peer) {
    if (role != Role::active) return;
    const MemberInfo* member = tip().find(peer);
    wanted_links[peer] = now + offer_patience * options.resend;
    const auto at = connections.find(peer);
    if (at == connections.end()) return dial(peer, member->address);
    if (at->second.greeted) send(peer, make_message(LinkOffer{identity.member}));
}

// What somebody asks this node for; every wish comes to an end.
void Member::State::wish_link(NodeId peer, bool connect) {
    if (const auto other = link_wishes.find(peer); other != link_wishes.end() && other->second.connect != connect)
        refuse_link(peer, "the opposite was asked for meanwhile");
    link_wishes[peer] = {.connect = connect,
                         .agreed = !connect,
                         .until = now + (connect ? offer_patience : wish_patience) * options.resend};
    if (line.empty() || !tip().has(identity.member)) return refuse_link(peer, "this node is not a member");
    const LinkId link = link_between(self(), peer);
    const bool linked = tip().find(link) != nullptr;
    if (!connect) {
        if (!linked) return refuse_link(peer, "there is no such link");
        Request request;
        request.kind = RequestKind::disconnect;
        request.link = link;
        return ask_for(std::move(request));
    }
    if (role != Role::active) return refuse_link(peer, "this node pulls the state; only active members add links");
    if (peer == self() || tip().find(peer) == nullptr) return refuse_link(peer, "it is not another member");
    if (linked) return refuse_link(peer, "they are linked already");
    want_link(peer);
}

void Member::State::refuse_link(NodeId peer, const std::string& why) {
    const auto wish = link_wishes.find(peer);
    const bool connect = wish->second.connect;
    link_wishes.erase(wish);
    act(LinkRefused{.peer = peer,
                    .connect = connect,
                    .text = (connect ? "no link with " + brief(peer) + " comes about: "
                                     : "the link with " + brief(peer) + " is not removed: ") +
                            why});
}

// Those that a view has fulfilled are done; for some there is no hope.
void Member::State::mind_link_wishes() {
    const std::map<NodeId, LinkWish> wishes = link_wishes;
    for (const auto& [peer, wish] : wishes) {
        const LinkId link = link_between(self(), peer);
        const bool linked = !line.empty() && tip().find(link) != nullptr;
        if (linked == wish.connect) {
            link_wishes.erase(peer);
        } else if (line.empty() || !tip().has(identity.member)) {
            refuse_link(peer, "this node is not a member any more");
        } else if (tip().find(peer) == nullptr) {
            refuse_link(peer, "it is not a member any more");
        } else if (now >= wish.until) {
            Request request;
            request.kind = wish.connect ? RequestKind::connect : RequestKind::disconnect;
            request.link = link;
            own.erase(key_of(request));
            const Nanoseconds waited = (wish.agreed ? wish_patience : offer_patience) * options.resend;
            const std::string span = std::to_string(waited / millisecond) + " ms";
            refuse_link(peer, wish.agreed ? "in " + span +
                                                " the members did not agree on it, and may yet do so; chaos why says "
                                                "what they wait for"
                                          : "it gave no answer in " + span);
        }
    }
}

// Before `delta` is in force. Who asks for the removal of a link does not want it back after the next look at the
// overlay, at neither end.
void Member::State::remember_given_up(const Delta& delta) {
    for (const LinkInfo& link : delta.link_additions)
        if (link.id.touches(self()) && tip().find(link.id) == nullptr) given_up.erase(link.id.other(self()));
    for (const LinkRemoval& removal : delta.link_removals) {
        if (!removal.link.touches(self())) continue;
        // It may have failed before the members agreed to remove it.
        Request request;
        request.kind = RequestKind::disconnect;
        request.link = removal.link;
        if (removal.reason == Reason::asked || pending.contains(key_of(request)))
            given_up.insert(removal.link.other(self()));
    }
}

}  // namespace chaos::cluster
