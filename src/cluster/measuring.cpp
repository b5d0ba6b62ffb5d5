// What members measure, and how it becomes part of the view: their speed, and what their links carry.
//
//   speed     its member asks for it: at once where the view has none, else when no view came for a while
//   figures   each vote brings some of its author's; where there are no votes for a while, one of them is asked for,
//             and the others come with the votes on that
#include "cluster/state.h"

#include <algorithm>

namespace chaos::cluster {
namespace {

constexpr Nanoseconds enough_waiting = 60 * second;
constexpr std::size_t claims_at_once = 8;

}  // namespace

bool Member::State::waited_long() const {
    return now - tip_since >= enough_waiting;
}

Figures Member::State::measured(NodeId peer, const Connection& connection) const {
    Figures figures;
    (self() < peer ? figures.rate_ba : figures.rate_ab) = connection.rate;
    figures.delay_us = static_cast<std::uint32_t>(std::min<Nanoseconds>(connection.round_trip / 2000, max_delay_us));
    return figures;
}

// Links whose figures are no longer those of the view; or only those that differ much.
std::vector<LinkInfo> Member::State::claims(std::size_t most, bool large_only) {
    std::vector<LinkInfo> result;
    for (auto& [peer, connection] : connections) {
        const LinkInfo* link = tip().find(link_between(self(), peer));
        if (link == nullptr || (connection.claimed_at > 0 && now - connection.claimed_at < enough_waiting)) continue;
        const Figures ours = measured(peer, connection);
        if (large_only ? !differs_much(ours, link->figures) : agrees(ours, link->figures)) continue;
        connection.claimed_at = now;
        result.push_back({.id = link->id, .figures = ours});
        if (result.size() == most) break;
    }
    return result;
}

std::vector<LinkInfo> Member::State::claims_for_vote() {
    return claims(claims_at_once, false);
}

// Also of a vote that came too late to count.
void Member::State::hear_claims(const Accepted& vote) {
    for (const LinkInfo& claim : vote.claims) {
        Request request;
        request.kind = RequestKind::figures;
        request.link = claim.id;
        request.figures = claim.figures;
        request.stamp.author = vote.stamp.author;
        const Fitness::Kind kind = fitness(tip(), request, nullptr).kind;
        if (kind == Fitness::Kind::may_wait || kind == Fitness::Kind::rides_along) wait_for(request);
    }
}

void Member::State::say_measured() {
    if (role != Role::active || !tip().is_active(self())) return;
    const std::uint32_t known_speed = tip().find(self())->speed;
    if (!speeds_agree(identity.speed, known_speed) && (known_speed == 0 || waited_long())) {
        Request request;
        request.kind = RequestKind::speed;
        request.subject = identity.member;
        request.value = identity.speed;
        ask_for(std::move(request));
    }
    const bool asked =
        std::ranges::any_of(own, [](const auto& entry) { return entry.first.kind == RequestKind::figures; });
    if (line.empty() || asked || !waited_long()) return;
    for (const LinkInfo& claim : claims(1, true)) {
        Request request;
        request.kind = RequestKind::figures;
        request.link = claim.id;
        request.figures = claim.figures;
        ask_for(std::move(request));
    }
}

}  // namespace chaos::cluster
