// Lines that are compared: catching up with decisions, whole views for newcomers, and lines that meet again.
#include "cluster/state.h"
#include "cluster/trust.h"

#include <algorithm>

namespace chaos::cluster {

// A peer told which view it is at.
void Member::State::compare_lines(NodeId from, const Name& view, std::uint64_t epoch) {
    if (line.empty()) {
        // Who was left out may be the only one to know what was decided.
        if (past.empty() || epoch >= past.tip()->epoch) return;
        if (auto decisions = past.since(view, epoch, 64)) {
            History history;
            history.decisions = std::move(*decisions);
            send(from, make_signed(std::move(history), identity.member, 0, signer));
        }
        return;
    }
    if (line.contains(view, epoch)) return;
    if (epoch > tip().epoch) {
        send(from, make_message(CatchUp{.view = tip().name, .epoch = tip().epoch}));
    } else {
        send_summary(from);
    }
}

void Member::State::on_catch_up(NodeId from, const CatchUp& message) {
    constexpr std::size_t decisions_at_once = 64;
    if (line.empty()) return;
    if (message.view == Name{}) {
        // A newcomer asks; the view is large, so only those whom it lists get it.
        if (tip().find(from) != nullptr) send_whole(from);
        return;
    }
    History history;
    if (auto decisions = line.since(message.view, message.epoch, decisions_at_once)) {
        if (decisions->empty()) return;
        history.decisions = std::move(*decisions);
        send(from, make_signed(std::move(history), identity.member, 0, signer));
    } else if (line.contains(message.view, message.epoch)) {
        send_whole(from);  // further behind than decisions are kept
    } else {
        send_summary(from);
    }
}

// The view and what led to it, for one who has none.
void Member::State::send_whole(NodeId to) {
    History history = line.whole(applied);
    history.lost.assign(lost.begin(), lost.end());
    send(to, make_signed(std::move(history), identity.member, 0, signer));
}

void Member::State::on_history(NodeId from, const History& history, const Message& message) {
    if (history.stamp.author.node != from || !signature_fits(message, signer)) {
        ++counters.forged;
        return;
    }
    if (history.view) return on_whole(from, history);
    if (line.empty()) return;
    for (const Decide& decision : history.decisions) {
        if (decision.delta.epoch <= tip().epoch) continue;
        if (!signature_fits(*make_message(decision), signer)) {
            ++counters.forged;
            return;
        }
        if (!on_decide(std::make_shared<Decide>(decision)) || line.empty()) return;
    }
    // There may be more.
    if (const auto at = connections.find(from); at != connections.end() && !line.empty() && !history.decisions.empty())
        compare_lines(from, at->second.view, at->second.epoch);
}

// A line told from a whole view on: the way in for a newcomer. Whoever has a line of its own gets this when it is so
// far behind that the way from there to here is forgotten, and heeds it only if nothing goes on where it is.
void Member::State::on_whole(NodeId from, const History& history) {
    if (role == Role::outside || (role == Role::active && !stopped)) return;
    // Only those tell us where we are whom we asked; where we have a line, those who know it.
    const bool asked = !line.empty() || join.asked.contains(from) || join.consents.contains(from);
    const Result<ViewPtr> base = decode_view(*history.view);
    if (!asked || !base || (*base)->run != identity.run) {
        ++counters.refused;
        return;
    }
    if ((*base)->planner != planner_version) {
        ++counters.refused;
        return note("cannot take part: the cluster makes its plans by version " + std::to_string((*base)->planner) +
                    ", this program by version " + std::to_string(planner_version));
    }
    Line fresh;
    fresh.begin(*base, history.ancestors);
    for (const Decide& decision : history.decisions) {
        const ViewPtr governing = fresh.governing(decision.delta.first_step);
        const Result<ViewPtr> next = apply(*fresh.tip(), governing.get(), decision.delta);
        if (!next || !prove_additions(*fresh.tip(), decision.delta, {}, signer) ||
            !signature_fits(*make_message(decision), signer)) {
            ++counters.refused;
            return;
        }
        fresh.append(*next, std::make_shared<Decide>(decision), 0);
    }
    if (!line.empty() && (fresh.tip()->epoch <= tip().epoch || fresh.tip()->founder != tip().founder)) return;
    if (!line.empty() && tip().find(from) == nullptr && !fresh.contains(tip().name, tip().epoch)) {
        ++counters.refused;
        return;
    }
    const bool seated = role == Role::returning && fresh.tip()->find(self()) != nullptr;
    if ((!fresh.tip()->has(identity.member) && !seated) || role == Role::active) {
        if (!line.empty()) exclude("the cluster went on without this node", false);
        return;
    }
    for (const Candidate& candidate : history.lost) remember_lost(candidate);
    line = std::move(fresh);
    forget_ballots();
    act(Adopted{line.tip()});
    persist();
    after_adoption();
}

LineSummary Member::State::summary(std::size_t depth) const {
    LineSummary summary;
    summary.founder = tip().founder;
    const std::vector<Ancestor>& all = line.ancestors();
    const std::size_t told = std::min(all.size(), depth);
    summary.ancestors.assign(all.end() - static_cast<std::ptrdiff_t>(told), all.end());
    summary.meetings = tip().meetings;
    return summary;
}

void Member::State::send_summary(NodeId to) {
    const auto at = connections.find(to);
    if (at == connections.end() ||
        (at->second.summary_sent_at != 0 && now - at->second.summary_sent_at < options.heartbeat))
        return;
    at->second.summary_sent_at = now;
    send(to, make_signed(summary(at->second.summary_depth), identity.member, 0, signer));
}

void Member::State::on_summary(NodeId from, const LineSummary& theirs, const MessagePtr& message) {
    if (line.empty()) return;
    if (!signature_fits(*message, signer)) {
        ++counters.forged;
        return;
    }
    Connection& connection = connections.at(from);
    // Whoever tells more wants to hear more.
    connection.summary_depth = std::max(connection.summary_depth, theirs.ancestors.size());
    const Line::Meeting meeting = line.meet(theirs);
    switch (meeting.outcome) {
        case Meet::same:
            return;
        case Meet::behind:
            return send(from, make_message(CatchUp{.view = tip().name, .epoch = tip().epoch}));
        case Meet::win:
        case Meet::other_freezes:
            return send_summary(from);
        case Meet::must_freeze: {
            if (role == Role::active && tip().has(identity.member)) {
                Request request;
                request.kind = RequestKind::meet;
                request.name = meeting.their_child;
                ask_for(std::move(request));
            }
            return send_summary(from);
        }
        case Meet::strangers:
            ++counters.refused;
            note("refused " + brief(from) + ": its cluster was founded apart from ours, and such lines never merge",
                 About::refused);
            return drop(from, "founded apart");
        case Meet::too_long_ago:
            if (connection.summary_depth < max_ancestors) {
                connection.summary_depth = max_ancestors;
                return send_summary(from);
            }
            if (theirs.ancestors.size() < std::min<std::uint64_t>(max_ancestors, theirs.ancestors.back().epoch)) return;
            ++counters.refused;
            note("refused " + brief(from) + ": its line and ours have no view in common that is remembered",
                 About::refused);
            return drop(from, "no common view is remembered");
        case Meet::impossible:
            ++counters.refused;
            note("refused " + brief(from) + ": it tells of a line that cannot be, decided by the same quorum as ours",
                 About::refused);
            return drop(from, "that line cannot be");
        case Meet::lose: {
            // The others of our line must hear it too.
            for (const auto& [peer, other] : connections)
                if (peer != from && other.greeted && tip().find(peer) != nullptr) send(peer, message);
            note("our line met another of the same founder that goes on; " + std::to_string(applied) +
                 " steps had been applied here");
            exclude("our line ends in favour of that of " + brief(theirs.stamp.author.node), false);
            join.contacts.insert(join.contacts.begin(), {.node = from, .address = ""});
            return;
        }
    }
}

}  // namespace chaos::cluster
