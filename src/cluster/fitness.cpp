#include "cluster/compose.h"
#include "cluster/trust.h"

#include <algorithm>

namespace chaos::cluster {
namespace {

using Kind = Fitness::Kind;

Fitness refuse(std::string why) {
    return {.kind = Kind::refused, .why = std::move(why)};
}

// Whether each consent is for `offerer`, recent, and signed by whom it names.
bool consents_hold(const View& view, const Request& request, MemberId offerer, const Signer* signer) {
    return std::ranges::all_of(request.consents, [&](const LinkConsent& consent) {
        return consent.offerer == offerer && consent.refusal.empty() && consent.epoch + max_age_epochs >= view.epoch &&
               (signer == nullptr || signature_fits(consent, *signer));
    });
}

Fitness fitness_of_join(const View& view, const Request& request, const Signer* signer) {
    const MemberInfo* known = view.find(request.subject.node);
    if (known != nullptr && known->id == request.subject) return {.kind = Kind::done};
    if (known != nullptr && known->id.incarnation > request.subject.incarnation)
        return refuse("a younger life of this node is a member already");
    if (known != nullptr)
        return refuse("this key is a member already, by an earlier life that has not been missed yet");
    const MemberInfo& info = request.newcomer.info;
    if (info.id != request.subject || info.standing != Standing::syncing)
        return refuse("the request contradicts itself");
    if (signer != nullptr)
        if (const Result<void> proven = proves(request.newcomer, *signer); !proven)
            return refuse(proven.error().message);
    const Vouched vouched{.institution = info.institution, .token = request.newcomer.token};
    if (const Result<void> entry = admits(view, info.id.node, vouched); !entry) return refuse(entry.error().message);
    if (view.members.size() >= max_members) return refuse("the cluster is full");
    const bool linked = std::ranges::any_of(
        request.consents, [&](const LinkConsent& consent) { return view.is_active(consent.stamp.author.node); });
    if (!linked) return refuse("no active member has agreed to a link with it");
    if (!consents_hold(view, request, request.subject, signer))
        return refuse("a consent to a link with it is forged, for another node, or too old");
    return {};
}

Fitness fitness_of_connect(const View& view, const Request& request, const Signer* signer) {
    if (view.find(request.link) != nullptr) return {.kind = Kind::done};
    const NodeId author = request.stamp.author.node;
    if (!request.link.touches(author) || !(request.link.a < request.link.b))
        return refuse("only an end of a link may ask for it");
    if (view.find(request.link.a) == nullptr || view.find(request.link.b) == nullptr)
        return refuse("both ends of a link must be members");
    const bool agreed = std::ranges::any_of(request.consents, [&](const LinkConsent& consent) {
        return consent.stamp.author.node == request.link.other(author);
    });
    if (!agreed || !consents_hold(view, request, request.stamp.author, signer))
        return refuse("the other end has not agreed to this link");
    return {};
}

Fitness fitness_of_link_end(const View& view, const Request& request) {
    if (view.find(request.link) == nullptr) return {.kind = Kind::done};
    if (!request.link.touches(request.stamp.author.node)) return refuse("only an end of a link may speak for it");
    if (request.kind == RequestKind::figures) {
        // A claim is done once the view has it; it is not repeated for a small difference.
        const Figures& known = view.find(request.link)->figures;
        if (agrees(request.figures, known)) return {.kind = Kind::done};
        return {.kind = differs_much(request.figures, known) ? Kind::may_wait : Kind::rides_along};
    }
    if (request.kind == RequestKind::disconnect) return {};
    const bool carries_steps = view.is_active(request.link.a) && view.is_active(request.link.b);
    return {.kind = carries_steps ? Kind::interrupts : Kind::fits};
}

// Any member may carry it here: it is the institution's signature that counts. The node need not be there.
Fitness fitness_of_revocation(const View& view, const Request& request, const Signer* signer) {
    const Revocation revocation{.subject = request.subject.node, .by = request.name};
    if (std::ranges::binary_search(view.revoked, revocation)) return {.kind = Kind::done};
    if (signer != nullptr) {
        const Result<Revocation> proven = signer->revocation(request.revocation);
        if (!proven) return refuse(proven.error().message);
        if (*proven != revocation) return refuse("the revocation is of another node, or by another institution");
    }
    if (!view.institution_in(revocation.by)) return refuse("the institution that revokes it is not in the cluster");
    const MemberInfo* member = view.find(revocation.subject);
    if (member != nullptr && member->institution != revocation.by)
        return refuse("an institution revokes its own nodes only");
    return {};
}

Fitness fitness_of_institution(const View& view, const Request& request) {
    if (view.find(request.stamp.author.node) == nullptr) return refuse("only a member may ask for this");
    const bool in = view.institution_in(request.name);
    const bool wanted = request.kind == RequestKind::admit_institution;
    return in == wanted ? Fitness{.kind = Kind::done} : Fitness{};
}

}  // namespace

RequestKey key_of(const Request& request) {
    RequestKey key{.kind = request.kind, .subject = {}, .link = {}, .name = {}, .author = {}};
    switch (request.kind) {
        case RequestKind::join:
        case RequestKind::activate:
        case RequestKind::leave:
        case RequestKind::speed:
        case RequestKind::expel:
            key.subject = request.subject;
            break;
        case RequestKind::revoke_node:
            key.subject = request.subject;
            key.name = request.name;
            break;
        case RequestKind::connect:
        case RequestKind::disconnect:
        case RequestKind::link_down:
            key.link = request.link;
            break;
        case RequestKind::figures:
            key.link = request.link;
            key.author = request.stamp.author.node;
            break;
        case RequestKind::admit_institution:
        case RequestKind::remove_institution:
            key.name = request.name;
            key.author = request.stamp.author.node;
            break;
        case RequestKind::meet:
        case RequestKind::stuck:
        case RequestKind::broken:
            key.name = request.name;
            break;
        case RequestKind::link_up:
            key.link = request.link;
            break;
    }
    return key;
}

Fitness fitness(const View& view, const Request& request, const Signer* signer) {
    switch (request.kind) {
        case RequestKind::join:
            return fitness_of_join(view, request, signer);
        case RequestKind::activate: {
            const MemberInfo* member = view.find(request.subject.node);
            if (member == nullptr || member->id != request.subject) return refuse("it is not a member");
            if (request.stamp.author != request.subject) return refuse("only a joiner itself can say that it is ready");
            return {.kind = member->standing == Standing::active ? Kind::done : Kind::fits};
        }
        case RequestKind::leave:
            if (!view.has(request.subject)) return {.kind = Kind::done};
            if (request.stamp.author != request.subject) return refuse("a member leaves by its own will only");
            if (view.active_count() == 1 && view.is_active(request.subject.node))
                return refuse("the last active member cannot leave the others; it may simply stop");
            return {};
        case RequestKind::connect:
            return fitness_of_connect(view, request, signer);
        case RequestKind::disconnect:
        case RequestKind::link_down:
        case RequestKind::figures:
            return fitness_of_link_end(view, request);
        case RequestKind::speed:
            if (!view.has(request.subject) || request.stamp.author != request.subject)
                return refuse("a member speaks for its own speed only");
            if (speeds_agree(request.value, view.find(request.subject.node)->speed)) return {.kind = Kind::done};
            // Until then its share is a guess.
            return {.kind = view.find(request.subject.node)->speed == 0 ? Kind::fits : Kind::may_wait};
        case RequestKind::admit_institution:
        case RequestKind::remove_institution:
            return fitness_of_institution(view, request);
        case RequestKind::revoke_node:
            return fitness_of_revocation(view, request, signer);
        case RequestKind::expel:
            return {.kind = view.find(request.subject.node) != nullptr ? Kind::fits : Kind::done};
        case RequestKind::link_up:
            return {.kind = Kind::rides_along};
        case RequestKind::stuck:
        case RequestKind::broken:
            return {.kind = request.name == view.name ? Kind::interrupts : Kind::done};
        case RequestKind::meet:
            return {.kind = std::ranges::find(view.meetings, request.name, &Meeting::other) == view.meetings.end()
                                ? Kind::fits
                                : Kind::done};
    }
    return refuse("an event of an unknown kind");
}

}  // namespace chaos::cluster
