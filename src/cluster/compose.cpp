#include "cluster/compose.h"

#include "base/planted.h"

#include <algorithm>
#include <set>

namespace chaos::cluster {
namespace {

using Kind = Fitness::Kind;

Fitness refuse(std::string why) {
    return {.kind = Kind::refused, .why = std::move(why)};
}

bool consents_to(const Request& request, NodeId from, MemberId offerer, const Signer* signer) {
    return std::ranges::any_of(request.consents, [&](const LinkConsent& consent) {
        return consent.stamp.author.node == from && consent.offerer == offerer && consent.refusal.empty() &&
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
    if (std::ranges::binary_search(view.revoked, request.subject.node)) return refuse("this node was revoked");
    if (!view.institution_in(request.info.institution)) return refuse("its institution is not in the cluster");
    if (request.info.id != request.subject || request.info.standing != Standing::syncing)
        return refuse("the request contradicts itself");
    if (view.members.size() >= max_members) return refuse("the cluster is full");
    const bool linked = std::ranges::any_of(request.consents, [&](const LinkConsent& consent) {
        return view.is_active(consent.stamp.author.node) && consent.offerer == request.subject &&
               consent.refusal.empty() && (signer == nullptr || signature_fits(consent, *signer));
    });
    if (!linked) return refuse("no active member has agreed to a link with it");
    return {};
}

Fitness fitness_of_connect(const View& view, const Request& request, const Signer* signer) {
    if (view.find(request.link) != nullptr) return {.kind = Kind::done};
    const NodeId author = request.stamp.author.node;
    if (!request.link.touches(author) || request.link.a == request.link.b)
        return refuse("only an end of a link may ask for it");
    if (view.find(request.link.a) == nullptr || view.find(request.link.b) == nullptr)
        return refuse("both ends of a link must be members");
    if (!consents_to(request, request.link.other(author), request.stamp.author, signer))
        return refuse("the other end has not agreed to this link");
    return {};
}

Fitness fitness_of_link_end(const View& view, const Request& request) {
    if (view.find(request.link) == nullptr) return {.kind = Kind::done};
    if (!request.link.touches(request.stamp.author.node)) return refuse("only an end of a link may speak for it");
    if (request.kind == RequestKind::figures) {
        // A claim is done once the view has it; it is not repeated for a small difference.
        const Figures& agreed = view.find(request.link)->figures;
        const Figures& said = request.figures;
        const auto fits = [](std::uint32_t claim, std::uint32_t known) {
            return claim == 0 || (claim <= known + known / 4 && known <= claim + claim / 4);
        };
        const bool known = fits(said.delay_us, agreed.delay_us) && fits(said.rate_ab, agreed.rate_ab) &&
                           fits(said.rate_ba, agreed.rate_ba);
        return {.kind = known ? Kind::done : Kind::rides_along};
    }
    if (request.kind == RequestKind::disconnect) return {};
    const bool carries_steps = view.is_active(request.link.a) && view.is_active(request.link.b);
    return {.kind = carries_steps ? Kind::interrupts : Kind::fits};
}

Fitness fitness_of_institution(const View& view, const Request& request) {
    const MemberInfo* author = view.find(request.stamp.author.node);
    if (author == nullptr) return refuse("only a member may ask for this");
    if (request.kind == RequestKind::revoke_node) {
        if (std::ranges::binary_search(view.revoked, request.subject.node)) return {.kind = Kind::done};
        const MemberInfo* member = view.find(request.subject.node);
        if (member == nullptr) return refuse("there is no such node");
        if (member->institution != author->institution) return refuse("an institution revokes its own nodes only");
        return {};
    }
    const bool in = view.institution_in(request.name);
    const bool wanted = request.kind == RequestKind::admit_institution;
    return in == wanted ? Fitness{.kind = Kind::done} : Fitness{};
}

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

void compose_institutions(const View& view, const Pending& pending, Draft& draft) {
    std::set<std::pair<RequestKind, Name>> handled;
    for (const auto& [key, request] : pending) {
        if (key.kind == RequestKind::revoke_node || key.kind == RequestKind::expel) {
            draft.delta().revocations.push_back(request.subject.node);
            draft.remove(request.subject.node, key.kind == RequestKind::expel ? Reason::expelled : Reason::revoked,
                         true);
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
    for (const NodeId author : {link.id.a, link.id.b}) {
        const auto claim =
            pending.find({.kind = RequestKind::figures, .subject = {}, .link = link.id, .name = {}, .author = author});
        if (claim == pending.end()) continue;
        const Figures& said = claim->second.figures;
        // Each end speaks of what it receives.
        if (author == link.id.b && said.rate_ab > 0) figures.rate_ab = said.rate_ab;
        if (author == link.id.a && said.rate_ba > 0) figures.rate_ba = said.rate_ba;
        if (said.delay_us > 0) figures.delay_us = said.delay_us;
    }
    return figures;
}

void add_join(const View& view, const Request& request, Draft& draft) {
    draft.delta().additions.push_back(request.info);
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

// Of the parts into which dead links divide those who report, the one with most of them goes on; where two are equal,
// the proposer's own. The proposer may well propose a view without itself.
NodeId best_placed(const View& view, NodeId proposer, const std::map<NodeId, Report>& reports,
                   std::span<const LinkId> down) {
    NodeId best = proposer;
    std::size_t most = 0;
    std::set<NodeId> visited;
    std::vector<NodeId> starts{proposer};
    for (const auto& [node, report] : reports)
        if (report.role == Role::active) starts.push_back(node);
    for (const NodeId start : starts) {
        if (visited.contains(start)) continue;
        std::size_t running = 0;
        for (const NodeId node : reachable_from(view, start, down)) {
            visited.insert(node);
            const auto report = reports.find(node);
            if (report != reports.end() && report->second.role == Role::active) ++running;
        }
        if (running > most) {
            most = running;
            best = start;
        }
    }
    return best;
}

// Founding again: everybody was down. Those who hold the newest checkpoint begin from it, the others pull it.
Result<Delta> compose_founding(const View& view, NodeId proposer, Delta delta, const std::map<NodeId, Report>& kept,
                               std::span<const LinkId> down) {
    const Report* newest = nullptr;
    for (const auto& [node, report] : kept) {
        if (newest == nullptr || report.applied > newest->applied ||
            (report.applied == newest->applied && report.lineage < newest->lineage))
            newest = &report;
    }
    if (newest == nullptr) return Error{"nobody has a checkpoint"};
    delta.settlement = Settlement{
        .applied = newest->applied, .holders = {}, .founded = true, .lineage = newest->lineage, .from_joiners = false};
    delta.first_step = newest->applied;
    for (const MemberInfo& member : view.members) {
        delta.removals.push_back({.node = member.id.node, .reason = Reason::restarted});
        const auto report = kept.find(member.id.node);
        if (report == kept.end()) continue;
        MemberInfo again = member;
        again.id = report->second.member;
        const bool holds = report->second.applied == newest->applied && report->second.lineage == newest->lineage;
        again.standing = holds ? Standing::active : Standing::syncing;
        again.since_epoch = member.since_epoch;  // standing outlives a restart of everybody
        again.first_step = newest->applied;
        delta.additions.push_back(std::move(again));
    }
    std::map<NodeId, std::vector<NodeId>> adjacent;
    for (const LinkInfo& link : view.links) {
        if (!kept.contains(link.id.a) || !kept.contains(link.id.b) || std::ranges::binary_search(down, link.id))
            continue;
        delta.link_additions.push_back(link);
        adjacent[link.id.a].push_back(link.id.b);
        adjacent[link.id.b].push_back(link.id.a);
    }
    // Those who hung together by somebody who is missing, or who has to pull the state first, are linked to one who
    // holds it.
    std::set<NodeId> holders;
    for (const MemberInfo& added : delta.additions)
        if (added.standing == Standing::active) holders.insert(added.id.node);
    const NodeId anchor = holders.contains(proposer) ? proposer : *holders.begin();
    std::set<NodeId> reached;
    std::vector<NodeId> stack{anchor};
    auto next = kept.begin();
    while (true) {
        while (!stack.empty()) {
            const NodeId node = stack.back();
            stack.pop_back();
            if (!reached.insert(node).second || !holders.contains(node)) continue;
            for (const NodeId peer : adjacent[node]) stack.push_back(peer);
        }
        while (next != kept.end() && reached.contains(next->first)) ++next;
        if (next == kept.end()) break;
        delta.link_additions.push_back({.id = link_between(anchor, next->first), .figures = {}});
        stack.push_back(next->first);
    }
    return delta;
}

}  // namespace

RequestKey key_of(const Request& request) {
    RequestKey key{.kind = request.kind, .subject = {}, .link = {}, .name = {}, .author = {}};
    switch (request.kind) {
        case RequestKind::join:
        case RequestKind::activate:
        case RequestKind::leave:
        case RequestKind::speed:
        case RequestKind::revoke_node:
        case RequestKind::expel:
            key.subject = request.subject;
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
            return {.kind = Kind::rides_along};
        case RequestKind::admit_institution:
        case RequestKind::remove_institution:
        case RequestKind::revoke_node:
            return fitness_of_institution(view, request);
        case RequestKind::expel:
            return {.kind = view.find(request.subject.node) != nullptr ? Kind::fits : Kind::done};
        case RequestKind::link_up:
            return {.kind = Kind::rides_along};
        case RequestKind::stuck:
            return {.kind = request.name == view.name ? Kind::interrupts : Kind::done};
        case RequestKind::meet:
            return {.kind = std::ranges::find(view.meetings, request.name, &Meeting::other) == view.meetings.end()
                                ? Kind::fits
                                : Kind::done};
    }
    return refuse("an event of an unknown kind");
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
    Draft draft(view, first_step);
    compose_institutions(view, pending, draft);
    for (const auto& [key, request] : pending) {
        switch (key.kind) {
            case RequestKind::leave:
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
                delta.meetings.push_back({.other = request.name, .samples = first_step * view.batch});
                break;
            default:
                break;
        }
    }
    // A joiner none of whose links is kept cannot come in now.
    std::erase_if(delta.additions, [&](const MemberInfo& added) {
        return std::ranges::none_of(delta.link_additions,
                                    [&](const LinkInfo& link) { return link.id.touches(added.id.node); });
    });
    const bool changes = !delta.removals.empty() || !delta.additions.empty() || !delta.activations.empty() ||
                         !delta.link_removals.empty() || !delta.link_additions.empty() || !delta.institutions.empty() ||
                         !delta.revocations.empty() || !delta.meetings.empty();
    if (!changes) return std::nullopt;
    // What rides along.
    std::erase_if(delta.link_removals, [&](const LinkRemoval& removal) {
        return !draft.keeps(removal.link.a) || !draft.keeps(removal.link.b);
    });
    for (const auto& [key, request] : pending)
        if (key.kind == RequestKind::speed && draft.keeps(request.subject.node))
            delta.speeds.emplace_back(request.subject.node, static_cast<std::uint32_t>(request.value));
    std::set<LinkId> removed;
    for (const LinkRemoval& removal : delta.link_removals) removed.insert(removal.link);
    std::set<LinkId> measured;
    for (const auto& [key, request] : pending) {
        if (key.kind != RequestKind::figures || removed.contains(key.link) || !measured.insert(key.link).second)
            continue;
        if (!draft.keeps(key.link.a) || !draft.keeps(key.link.b)) continue;
        if (const LinkInfo* link = view.find(key.link))
            delta.link_additions.push_back({.id = link->id, .figures = merged(*link, pending)});
    }
    return std::move(draft).finish();
}

Result<Delta> compose_settlement(const View& view, NodeId proposer, const std::map<NodeId, Report>& reports,
                                 std::span<const LinkId> down, bool fork) {
    Delta delta;
    delta.parent = view.name;
    delta.epoch = view.epoch + 1;
    delta.fork = fork;

    const NodeId start = fork ? proposer : best_placed(view, proposer, reports, down);
    const std::vector<NodeId> reached = reachable_from(view, start, down);
    const auto is_reached = [&](NodeId node) { return std::ranges::binary_search(reached, node); };
    std::map<NodeId, Report> running;
    std::map<NodeId, Report> returned;
    for (const auto& [node, report] : reports) {
        if (report.role == Role::active && is_reached(node)) running.emplace(node, report);
        if (report.role == Role::returning) returned.emplace(node, report);
    }
    const bool returned_are_ahead = [&] {
        // Where only newcomers run, a checkpoint may be younger than what they hold.
        std::uint64_t newest = 0;
        for (const auto& [node, report] : returned) newest = std::max(newest, report.applied);
        return std::ranges::all_of(running, [&](const auto& entry) {
            return entry.second.applied < newest && view.find(entry.first)->first_step > newest;
        });
    }();
    if (returned_are_ahead) returned.insert(running.begin(), running.end());
    if (running.empty() || returned_are_ahead)
        return compose_founding(view, proposer, std::move(delta), returned, down);

    std::uint64_t applied = 0;
    for (const auto& [node, report] : running) applied = std::max(applied, report.applied);
    if (CHAOS_PLANTED(flush_skipped)) applied = running.begin()->second.applied;
    if (CHAOS_PLANTED(holder_ignored) && applied > 0) --applied;
    Settlement settlement{.applied = applied, .holders = {}, .founded = false, .lineage = {}, .from_joiners = false};
    bool somebody_short = false;
    std::set<NodeId> kept;
    for (const auto& [node, report] : running) {
        if (report.applied == applied) {
            settlement.holders.push_back(node);
        } else if (report.applied + 1 == applied) {
            somebody_short = true;
        } else if (!CHAOS_PLANTED(flush_skipped) && !CHAOS_PLANTED(holder_ignored)) {
            continue;  // further behind than the protocol allows: its state is of no use
        }
        kept.insert(node);
    }
    // Who was to become active later only syncs again (view.cpp), and relays nothing for others.
    View demoted = view;
    std::erase_if(demoted.members, [&](const MemberInfo& member) {
        return member.standing == Standing::active && !kept.contains(member.id.node);
    });
    settlement.from_joiners = std::ranges::none_of(demoted.members, [&](const MemberInfo& member) {
        return member.standing == Standing::active && member.first_step <= applied;
    });
    demote_early(demoted.members, applied);
    complete(demoted);
    NodeId anchor = start;
    if (!demoted.is_active(anchor)) anchor = demoted.senior;

    constexpr std::size_t holders_named = 8;
    if (!somebody_short) settlement.holders.clear();
    if (settlement.holders.size() > holders_named) settlement.holders.resize(holders_named);

    // Keep what hangs together: dropping somebody may cut off others.
    std::vector<LinkId> gone(down.begin(), down.end());
    for (const LinkInfo& link : view.links) {
        const bool a_lost = view.is_active(link.id.a) && !kept.contains(link.id.a);
        const bool b_lost = view.is_active(link.id.b) && !kept.contains(link.id.b);
        if (a_lost || b_lost) gone.push_back(link.id);
    }
    std::ranges::sort(gone);
    const std::vector<NodeId> together = reachable_from(demoted, anchor, gone);
    for (const MemberInfo& member : view.members) {
        const NodeId node = member.id.node;
        if (std::ranges::binary_search(together, node)) continue;
        Reason reason = member.standing == Standing::active ? Reason::failed : Reason::not_reached;
        if (returned.contains(node)) reason = Reason::restarted;
        delta.removals.push_back({.node = node, .reason = reason});
    }
    const bool holder_left = std::ranges::any_of(
        settlement.holders, [&](NodeId node) { return std::ranges::binary_search(together, node); });
    if (somebody_short && !holder_left) return Error{"those who hold the last result are out of reach"};
    for (const LinkInfo& link : view.links)
        if (std::ranges::binary_search(down, link.id) && std::ranges::binary_search(together, link.id.a) &&
            std::ranges::binary_search(together, link.id.b))
            delta.link_removals.push_back({.link = link.id, .reason = Reason::silent});
    delta.first_step = settlement.applied;
    delta.settlement = std::move(settlement);
    return delta;
}

}  // namespace chaos::cluster
