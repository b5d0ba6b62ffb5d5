#include "cluster/compose.h"

#include "base/planted.h"

#include <algorithm>
#include <set>

namespace chaos::cluster {
namespace {

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
        if (report->second.role == Role::returning) again.address = report->second.address;
        const bool holds = report->second.applied == newest->applied && report->second.lineage == newest->lineage;
        again.standing = holds ? Standing::active : Standing::syncing;
        again.since_epoch = member.since_epoch;  // standing outlives a restart of everybody
        again.first_step = newest->applied;
        delta.additions.push_back({.info = std::move(again), .credential = {}, .token = {}});
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
    for (const Newcomer& added : delta.additions)
        if (added.info.standing == Standing::active) holders.insert(added.info.id.node);
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

Result<Delta> compose_settlement(const View& view, NodeId proposer, const std::map<NodeId, Report>& reports,
                                 std::span<const LinkId> down, Fork fork) {
    Delta delta;
    delta.parent = view.name;
    delta.epoch = view.epoch + 1;
    delta.fork = fork;

    const NodeId start = fork != Fork::none ? proposer : best_placed(view, proposer, reports, down);
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
    if (somebody_short && !holder_left) {
        // The last result is with those only who hang on a link that is about to go. It is not stable: somebody is
        // short of it. So it is lost with them, as if they had failed.
        std::map<NodeId, Report> others = reports;
        for (const auto& [node, report] : running)
            if (report.applied >= applied) others.erase(node);
        return compose_settlement(view, proposer, others, down, fork);
    }
    for (const LinkInfo& link : view.links)
        if (std::ranges::binary_search(down, link.id) && std::ranges::binary_search(together, link.id.a) &&
            std::ranges::binary_search(together, link.id.b))
            delta.link_removals.push_back({.link = link.id, .reason = Reason::silent});
    delta.first_step = settlement.applied;
    delta.settlement = std::move(settlement);
    return delta;
}

}  // namespace chaos::cluster
