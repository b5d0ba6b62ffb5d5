// What everybody relays: flooded messages, requests for a change of the view, and proofs of double votes.
#include "base/planted.h"
#include "cluster/state.h"

#include <algorithm>

namespace chaos::cluster {

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
    // Also of what its author says itself, over a link that proves who it is: what a broken node garbles would be taken
    // here, and by nobody it is passed on to.
    if (from != self() && !CHAOS_PLANTED(signature_unchecked) && !signature_fits(*message, signer)) {
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
                return on_decide(DecidePtr(message, &body));
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
    if (author == nullptr || author->id != request.stamp.author || request.epoch + max_age_epochs < tip().epoch) {
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
        note("refused a request of " + brief(request.stamp.author.node) + ": " + fit.why, About::refused);
        return false;
    }
    if (fit.kind == Fitness::Kind::done) {
        ++counters.stale;
        return true;  // others may not know yet
    }
    wait_for(request);
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

// Until it is part of a view. No author makes us remember more than it may reasonably ask for.
void Member::State::wait_for(const Request& request) {
    constexpr std::size_t most_by_one_author = 4 * max_links_per_member;
    const RequestKey key = key_of(request);
    if (const auto known = pending.find(key); known != pending.end()) {
        known->second = request;
        return;
    }
    if (pending.size() >= most_by_one_author) {
        const auto by_author = std::ranges::count_if(
            pending, [&](const auto& entry) { return entry.second.stamp.author == request.stamp.author; });
        if (static_cast<std::size_t>(by_author) >= most_by_one_author) {
            ++counters.refused;
            return;
        }
    }
    pending.emplace(key, request);
    pending_since[key] = now;
}

void Member::State::ask_for(Request request) {
    request.stamp.author = identity.member;
    request.epoch = tip().epoch;
    const RequestKey key = key_of(request);
    const Fitness fit = fitness(tip(), request, nullptr);
    if (fit.kind == Fitness::Kind::refused) return note("not possible: " + fit.why);
    if (fit.kind == Fitness::Kind::done) return;
    const auto [entry, fresh] = own.try_emplace(key);
    if (!fresh && now < entry->second.resend_at) return;
    entry->second.request = request;
    const std::uint32_t attempt = ++entry->second.attempt;
    ++requests_made;
    // Repeats come ever later: what is not decided for long is not helped by shouting.
    entry->second.resend_at = now + options.resend * std::min<std::uint32_t>(attempt, 8) + spread();
    on_flooded(self(), make_signed(std::move(request), identity.member, requests_made, signer));
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

void Member::State::watch_votes(const MessagePtr& message) {
    const auto& vote = std::get<Accepted>(message->body);
    if (line.empty() || vote.value == Name{}) return;
    if (vote.parent != tip().name && vote.parent != tip().parent) return;
    if (!tip().is_active(vote.stamp.author.node)) return;
    const auto [entry, fresh] = votes_seen.try_emplace({vote.parent, vote.stamp.author.node}, message);
    if (fresh) return;
    const auto& before = std::get<Accepted>(entry->second->body);
    if (before.ballot == vote.ballot && before.value != vote.value && signature_fits(*message, signer)) {
        // What was relayed first was not looked at: it may be a forgery.
        if (signature_fits(*entry->second, signer)) return accuse(entry->second, message);
        ++counters.forged;
        entry->second = message;
        return;
    }
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
    const auto* decision1 = std::get_if<Decide>(&(*one)->body);
    const auto* decision2 = std::get_if<Decide>(&(*other)->body);
    const bool two_decisions = decision1 != nullptr && decision2 != nullptr &&
                               decision1->delta.parent == decision2->delta.parent &&
                               decision1->delta != decision2->delta;
    if (!two_votes && !two_offers && !two_decisions) {
        ++counters.refused;
        return false;
    }
    expel(author->author, Reason::expelled,
          two_decisions ? "told two decisions of one epoch" : "voted twice in one ballot");
    return true;
}

void Member::State::on_offender(NodeId node) {
    if (role != Role::active || !tip().has(identity.member)) return;
    if (const MemberInfo* member = tip().find(node))
        expel(member->id, Reason::offended, "made steps useless, time and again");
}

// Everybody finds the reason, or was shown it, and asks nobody else.
void Member::State::expel(MemberId member, Reason reason, const std::string& why) {
    Request request;
    request.kind = RequestKind::expel;
    request.subject = member;
    request.reason = reason;
    request.stamp.author = identity.member;
    const RequestKey key = key_of(request);
    if (pending.emplace(key, request).second) {
        pending_since[key] = now;
        note(brief(member.node) + " " + why + "; it is going to be expelled");
    }
    consider_proposing();
}

}  // namespace chaos::cluster
