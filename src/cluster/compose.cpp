#include "cluster/compose.h"

#include <algorithm>
#include <set>

namespace chaos::cluster {
namespace {

// Institutions decide by majority; each may always take itself out.
bool approved(const View& view, const Pending& pending, RequestKind kind, const Name& root) {
    std::set<Name> approvers;
    for (const auto& [key, request] : pending) {
        if (key.kind != kind || key.name != root) continue;
        if (const MemberInfo* author = view.find(request.stamp.author.node)) approvers.insert(author->institution);
    }
    if (kind == RequestKind::remove_institution && approvers.contains(root)) return true;
    std::size_t others = 0;
    for (const Institution& institution : view.institutions)
        if (institution.standing == InstitutionStanding::in && institution.root != root) ++others;
    return 2 * approvers.size() > others;
}

// A delta in the making: collects changes and keeps an eye on what the overlay would look like.
class Draft {
public:
    Draft(const View& view, std::uint64_t first_step) : view_(view) {
        composed_.delta.parent = view.name;
        composed_.delta.epoch = view.epoch + 1;
        composed_.delta.first_step = first_step;
    }

    [[nodiscard]] Delta& delta() { return composed_.delta; }
    void note(std::string text) { composed_.notes.push_back(std::move(text)); }

    // Removes the node if the others stay connected, or `force`s its way, taking those out whom it cuts off.
    bool remove(NodeId node, Reason reason, bool force) {
        if (removed_.contains(node)) return true;
        removed_.insert(node);
        const std::vector<NodeId> lost = unreached();
        if (!lost.empty() && !force) {
            removed_.erase(node);
            return false;
        }
        composed_.delta.removals.push_back({.node = node, .reason = reason});
        take_out(lost);
        return true;
    }

    void remove_link(LinkId link, Reason reason) {
        if (!down_.insert(link).second) return;
        composed_.delta.link_removals.push_back({.link = link, .reason = reason});
        const std::vector<NodeId> lost = unreached();
        for (const NodeId node : lost)
            note("removing the link " + brief(link.a) + "-" + brief(link.b) + " cuts off " + brief(node) +
                 ": this is a scale-in");
        take_out(lost);
    }

    [[nodiscard]] bool keeps(NodeId node) const { return !removed_.contains(node); }
    [[nodiscard]] bool has_active() const {
        return std::ranges::any_of(view_.members, [&](const MemberInfo& member) {
            return member.standing == Standing::active && keeps(member.id.node);
        });
    }
    [[nodiscard]] Composed finish() && { return std::move(composed_); }

private:
    // Who is outside of the part that goes on: the one with most active members; ties: the longest-standing's.
    [[nodiscard]] std::vector<NodeId> unreached() const {
        std::vector<LinkId> down(down_.begin(), down_.end());
        for (const LinkInfo& link : view_.links)
            if (removed_.contains(link.id.a) || removed_.contains(link.id.b)) down.push_back(link.id);
        std::ranges::sort(down);
        std::vector<NodeId> best;
        std::size_t best_active = 0;
        std::set<NodeId> visited;
        for (const NodeId start : view_.by_standing()) {
            if (removed_.contains(start) || visited.contains(start)) continue;
            std::vector<NodeId> part = reachable_from(view_, start, down);
            std::size_t active = 0;
            for (const NodeId node : part) {
                visited.insert(node);
                if (view_.is_active(node)) ++active;
            }
            if (active > best_active) {
                best_active = active;
                best = std::move(part);
            }
        }
        std::vector<NodeId> lost;
        for (const MemberInfo& member : view_.members)
            if (!removed_.contains(member.id.node) && !std::ranges::binary_search(best, member.id.node))
                lost.push_back(member.id.node);
        return lost;
    }

    void take_out(const std::vector<NodeId>& lost) {
        for (const NodeId node : lost) {
            removed_.insert(node);
            composed_.delta.removals.push_back(
                {.node = node, .reason = view_.is_active(node) ? Reason::cut_off : Reason::not_reached});
        }
    }

    const View& view_;
    Composed composed_;
    std::set<NodeId> removed_;
    std::set<LinkId> down_;
};

// The members that go with what is revoked: the node itself, or who came in by the token.
bool concerns(const View& view, const Revocation& revocation, const MemberInfo& member) {
    if (revocation.by != Name{} && member.institution != revocation.by) return false;
    const UsedToken* used = view.find_token(revocation.subject);
    return member.id.node == revocation.subject || (used != nullptr && used->node == member.id.node);
}

void compose_institutions(const View& view, const Pending& pending, Draft& draft) {
    std::set<std::pair<RequestKind, Name>> handled;
    for (const auto& [key, request] : pending) {
        if (key.kind == RequestKind::revoke_node || key.kind == RequestKind::expel) {
            const bool expelled = key.kind == RequestKind::expel;
            const Revocation revocation{.subject = request.subject.node, .by = expelled ? Name{} : request.name};
            draft.delta().revocations.push_back(revocation);
            for (const MemberInfo& member : view.members)
                if (concerns(view, revocation, member))
                    draft.remove(member.id.node, expelled ? request.reason : Reason::revoked, true);
        }
        if (key.kind != RequestKind::admit_institution && key.kind != RequestKind::remove_institution) continue;
        if (!handled.emplace(key.kind, key.name).second || !approved(view, pending, key.kind, key.name)) continue;
        const bool admit = key.kind == RequestKind::admit_institution;
        draft.delta().institutions.push_back(
            {.root = key.name, .standing = admit ? InstitutionStanding::in : InstitutionStanding::removed});
        if (admit) continue;
        for (const MemberInfo& member : view.members)
            if (member.institution == key.name) draft.remove(member.id.node, Reason::institution_out, true);
    }
}

Figures merged(const LinkInfo& link, const Pending& pending) {
    Figures figures = link.figures;
    std::uint32_t delay = max_delay_us;
    for (const NodeId author : {link.id.a, link.id.b}) {
        const auto claim =
            pending.find({.kind = RequestKind::figures, .subject = {}, .link = link.id, .name = {}, .author = author});
        if (claim == pending.end()) continue;
        const Figures& said = claim->second.figures;
        // Each end speaks of what it receives.
        if (author == link.id.b && said.rate_ab > 0) figures.rate_ab = said.rate_ab;
        if (author == link.id.a && said.rate_ba > 0) figures.rate_ba = said.rate_ba;
        if (said.delay_us > 0) delay = std::min(delay, said.delay_us);
    }
    // Of what both say, the lower: nobody makes others wait by a claim.
    if (delay < max_delay_us || figures.delay_us > max_delay_us) figures.delay_us = delay;
    return figures;
}

void add_join(const View& view, const Request& request, Draft& draft) {
    draft.delta().additions.push_back(request.newcomer);
    for (const LinkConsent& consent : request.consents) {
        const NodeId peer = consent.stamp.author.node;
        if (!consent.refusal.empty() || consent.offerer != request.subject || !view.is_active(peer) ||
            !draft.keeps(peer))
            continue;
        const LinkId link = link_between(request.subject.node, peer);
        const auto known = std::ranges::find(draft.delta().link_additions, link, &LinkInfo::id);
        if (known != draft.delta().link_additions.end()) continue;
        const auto claim = std::ranges::find(request.claims, link, &LinkInfo::id);
        draft.delta().link_additions.push_back(
            {.id = link, .figures = claim == request.claims.end() ? Figures{} : claim->figures});
    }
}

}  // namespace

bool ripe(const View& view, const Pending& pending, const RequestKey& key) {
    if (key.kind != RequestKind::admit_institution && key.kind != RequestKind::remove_institution) return true;
    return approved(view, pending, key.kind, key.name);
}

std::vector<NodeId> cut_off_by(const View& view, NodeId node) {
    std::vector<LinkId> down;
    for (const NodeId peer : view.neighbours(node)) down.push_back(link_between(node, peer));
    std::ranges::sort(down);
    std::vector<NodeId> others;
    for (const NodeId start : view.by_standing()) {
        if (start == node) continue;
        const std::vector<NodeId> reached = reachable_from(view, start, down);
        for (const MemberInfo& member : view.members)
            if (member.id.node != node && !std::ranges::binary_search(reached, member.id.node))
                others.push_back(member.id.node);
        break;
    }
    return others;
}

std::optional<Composed> compose_planned(const View& view, const Pending& pending, std::uint64_t first_step,
                                        std::span<const NodeId> patient) {
    // Where all active members want to leave, the longest-standing one stays last.
    const bool all_leave = std::ranges::all_of(view.members, [&](const MemberInfo& member) {
        return member.standing != Standing::active ||
               pending.contains(
                   {.kind = RequestKind::leave, .subject = member.id, .link = {}, .name = {}, .author = {}});
    });
    const NodeId stays = all_leave ? view.senior : NodeId{};
    Draft draft(view, first_step);
    compose_institutions(view, pending, draft);
    for (const auto& [key, request] : pending) {
        switch (key.kind) {
            case RequestKind::leave:
                if (request.subject.node == stays) {
                    draft.note(brief(stays) +
                               " is the last active member; it stays until there is another, or may simply stop");
                    break;
                }
                if (!draft.remove(request.subject.node, Reason::left,
                                  std::ranges::find(patient, request.subject.node) == patient.end()))
                    draft.note(brief(request.subject.node) + " leaves once others no longer depend on its links");
                break;
            case RequestKind::link_down:
                draft.remove_link(request.link, request.reason);
                break;
            case RequestKind::disconnect:
                draft.remove_link(request.link, Reason::asked);
                break;
            default:
                break;
        }
    }
    if (!draft.has_active()) return std::nullopt;
    Delta& delta = draft.delta();
    for (const auto& [key, request] : pending) {
        switch (key.kind) {
            case RequestKind::join: {
                // Of two lives of one node, the younger.
                const auto next = pending.upper_bound(key);
                if (next == pending.end() || next->first.kind != RequestKind::join ||
                    next->first.subject.node != key.subject.node)
                    add_join(view, request, draft);
                break;
            }
            case RequestKind::activate:
                if (draft.keeps(request.subject.node)) delta.activations.push_back(request.subject);
                break;
            case RequestKind::connect:
                if (draft.keeps(request.link.a) && draft.keeps(request.link.b))
                    delta.link_additions.push_back({.id = request.link, .figures = request.figures});
                break;
            case RequestKind::meet:
                if (delta.meetings.size() < max_meetings)
                    delta.meetings.push_back({.other = request.name, .samples = first_step * view.batch});
                break;
            default:
                break;
        }
    }
    // A joiner none of whose links is kept cannot come in now.
    std::erase_if(delta.additions, [&](const Newcomer& added) {
        return std::ranges::none_of(delta.link_additions,
                                    [&](const LinkInfo& link) { return link.id.touches(added.info.id.node); });
    });
    bool changes = !delta.removals.empty() || !delta.additions.empty() || !delta.activations.empty() ||
                   !delta.link_removals.empty() || !delta.link_additions.empty() || !delta.institutions.empty() ||
                   !delta.revocations.empty() || !delta.meetings.empty();
    // What may wait, or rides along.
    std::erase_if(delta.link_removals, [&](const LinkRemoval& removal) {
        return !draft.keeps(removal.link.a) || !draft.keeps(removal.link.b);
    });
    for (const auto& [key, request] : pending) {
        if (key.kind != RequestKind::speed || !draft.keeps(request.subject.node)) continue;
        delta.speeds.emplace_back(request.subject.node, static_cast<std::uint32_t>(request.value));
        changes = true;
    }
    std::set<LinkId> removed;
    for (const LinkRemoval& removal : delta.link_removals) removed.insert(removal.link);
    std::set<LinkId> measured;
    for (const auto& [key, request] : pending) {
        if (key.kind != RequestKind::figures || removed.contains(key.link) || !measured.insert(key.link).second)
            continue;
        if (!draft.keeps(key.link.a) || !draft.keeps(key.link.b)) continue;
        const LinkInfo* link = view.find(key.link);
        if (link == nullptr) continue;
        delta.link_additions.push_back({.id = link->id, .figures = merged(*link, pending)});
        changes = changes || differs_much(delta.link_additions.back().figures, link->figures);
    }
    if (!changes) return std::nullopt;
    return std::move(draft).finish();
}

}  // namespace chaos::cluster
