#include "cluster/view.h"

#include "base/planted.h"
#include "cluster/message.h"
#include "cluster/trust.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <set>
#include <utility>

namespace chaos::cluster {
namespace {

template <class List, class Key, class Projection>
auto find_sorted(List& list, const Key& key, Projection projection) {
    const auto at = std::ranges::lower_bound(list, key, {}, projection);
    return at != list.end() && std::invoke(projection, *at) == key ? &*at : nullptr;
}

NodeId node_of(const MemberInfo& member) {
    return member.id.node;
}

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

std::uint32_t place_of(const View& view, NodeId node) {
    const auto at = std::ranges::lower_bound(view.members, node, {}, node_of);
    if (at == view.members.end() || at->id.node != node) return none;
    return static_cast<std::uint32_t>(at - view.members.begin());
}

Name name_bytes(std::string_view purpose, const std::vector<std::uint8_t>& bytes) {
    return Sha256().add(purpose).add(std::as_bytes(std::span(bytes))).finish();
}

// Marks the members reachable from `start`; joiners are reached, but nothing passes through them.
std::vector<bool> reach(const View& view, std::uint32_t start, std::span<const LinkId> down) {
    std::vector<bool> reached(view.members.size(), false);
    std::vector<std::uint32_t> stack{start};
    reached[start] = true;
    while (!stack.empty()) {
        const std::uint32_t at = stack.back();
        stack.pop_back();
        if (at != start && view.members[at].standing != Standing::active) continue;
        for (std::uint32_t i = view.first_adjacent[at]; i < view.first_adjacent[at + 1]; ++i) {
            const auto [next, link] = view.adjacent[i];
            if (reached[next]) continue;
            if (!down.empty() && std::ranges::binary_search(down, view.links[link].id)) continue;
            reached[next] = true;
            stack.push_back(next);
        }
    }
    return reached;
}

// Divides so many samples among the weights, in whole ones: largest remainders first, ties by place, from the place
// `first` on around.
std::vector<std::uint32_t> apportion(std::uint64_t samples, const std::vector<std::uint64_t>& weights,
                                     std::uint64_t first = 0) {
    std::uint64_t total = 0;
    for (const std::uint64_t weight : weights) total += weight;
    CHAOS_ASSERT(total > 0);
    std::vector<std::uint32_t> counts(weights.size());
    struct Remainder {
        std::uint64_t left;
        std::size_t turn;
        std::size_t place;
    };
    std::vector<Remainder> remainders;
    std::uint64_t given = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        counts[i] = static_cast<std::uint32_t>(samples * weights[i] / total);
        given += counts[i];
        if (weights[i] > 0)
            remainders.push_back({.left = samples * weights[i] % total, .turn = remainders.size(), .place = i});
    }
    const std::size_t begin = first % remainders.size();
    for (Remainder& each : remainders) each.turn = (each.turn + remainders.size() - begin) % remainders.size();
    std::ranges::sort(remainders, [](const Remainder& x, const Remainder& y) {
        return x.left != y.left ? x.left > y.left : x.turn < y.turn;
    });
    for (std::size_t i = 0; given < samples; ++i, ++given) ++counts[remainders[i % remainders.size()].place];
    return counts;
}

// For whom the samples do not suffice: the fastest compute them, and those who are as fast as each other take turns.
// Now and then all do, so that who was slow once is measured again.
std::vector<std::uint32_t> take_turns(std::uint64_t samples, std::vector<std::uint64_t> weights, std::uint64_t step) {
    constexpr std::uint64_t turn_of_all = 16;  // every so many steps
    if (step % turn_of_all != 0) return apportion(samples, weights, step * samples);
    for (std::uint64_t& weight : weights) weight = std::min<std::uint64_t>(weight, 1);
    return apportion(samples, weights, step / turn_of_all * samples);
}

// Divides a step's samples among the weights. Whoever computes none is not measured, and would get none ever after:
// where there are enough samples, everybody with a weight has one at least.
std::vector<std::uint32_t> divide(std::uint64_t samples, std::vector<std::uint64_t> weights, std::uint64_t step) {
    std::vector<std::size_t> slowest_first;
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        total += weights[i];
        if (weights[i] > 0) slowest_first.push_back(i);
    }
    if (samples < slowest_first.size()) return take_turns(samples, std::move(weights), step);
    std::ranges::sort(slowest_first, {}, [&](std::size_t i) { return std::pair(weights[i], i); });
    std::vector<std::uint32_t> counts(weights.size());
    for (const std::size_t i : slowest_first) {
        if (samples * weights[i] >= total) break;
        counts[i] = 1;
        --samples;
        total -= std::exchange(weights[i], 0);
    }
    const std::vector<std::uint32_t> others = apportion(samples, weights);
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += others[i];
    return counts;
}

// Speeds of the active members as weights. A member whose speed is not known counts as the median of those known.
std::vector<std::uint64_t> weights_of(const View& view, std::uint64_t step, bool spare_newcomers) {
    std::vector<std::uint32_t> known;
    bool all_new = true;
    for (const MemberInfo& member : view.members) {
        if (member.standing != Standing::active) continue;
        if (member.speed > 0) known.push_back(member.speed);
        if (member.first_step != step) all_new = false;
    }
    std::ranges::sort(known);
    const std::uint64_t median = known.empty() ? 1 : known[known.size() / 2];
    std::vector<std::uint64_t> weights;
    for (const MemberInfo& member : view.members) {
        if (member.standing != Standing::active) continue;
        const bool spared = spare_newcomers && !all_new && member.first_step == step;
        weights.push_back(spared ? 0 : member.speed > 0 ? member.speed : median);
    }
    return weights;
}

std::vector<Share> redo_shares(const View& governing, const View& view) {
    std::vector<Share> shares;
    for (const MemberInfo& member : view.members)
        if (member.standing == Standing::active) shares.push_back({.node = member.id.node, .ranges = {}});
    std::vector<SampleRange> lost;
    std::uint64_t lost_samples = 0;
    for (Share& share : shares_of(governing, view.first_step)) {
        if (Share* kept = find_sorted(shares, share.node, &Share::node)) {
            kept->ranges = std::move(share.ranges);
            continue;
        }
        for (const SampleRange range : share.ranges) {
            lost.push_back(range);
            lost_samples += range.end - range.begin;
        }
    }
    const std::vector<std::uint32_t> counts = apportion(lost_samples, weights_of(view, view.first_step, true));
    std::size_t at = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
        for (std::uint32_t left = counts[i]; left > 0;) {
            SampleRange& range = lost[at];
            const std::uint32_t taken = std::min(left, range.end - range.begin);
            shares[i].ranges.push_back({.begin = range.begin, .end = range.begin + taken});
            range.begin += taken;
            left -= taken;
            if (range.begin == range.end) ++at;
        }
    }
    return shares;
}

NodeId id_of(const UsedToken& used) {
    return used.token.id;
}

// The view remembers who came in by a token; of too many, it forgets the one that ends soonest.
void use_up(View& view, const JoinToken& token, NodeId node) {
    if (find_sorted(view.tokens, token.id, id_of) != nullptr) return;
    if (view.tokens.size() >= max_tokens)
        view.tokens.erase(std::ranges::min_element(
            view.tokens, {}, [](const UsedToken& used) { return std::pair(used.token.not_after, used.token.id); }));
    view.tokens.insert(std::ranges::lower_bound(view.tokens, token.id, {}, id_of), {.token = token, .node = node});
}

Result<void> change_members(View& view, const Delta& delta) {
    std::set<NodeId> removed;
    for (const Removal& removal : delta.removals)
        if (!removed.insert(removal.node).second || view.find(removal.node) == nullptr)
            return Error{"it removes a node that is not there: " + brief(removal.node)};
    if (!removed.empty()) {
        std::erase_if(view.members, [&](const MemberInfo& member) { return removed.contains(member.id.node); });
        std::erase_if(view.links,
                      [&](const LinkInfo& link) { return removed.contains(link.id.a) || removed.contains(link.id.b); });
    }
    const bool founded = delta.settlement && delta.settlement->founded;
    for (const Newcomer& newcomer : delta.additions) {
        const MemberInfo& added = newcomer.info;
        if (find_sorted(view.members, added.id.node, node_of) != nullptr)
            return Error{"it adds a node that is there already: " + brief(added.id.node)};
        if (added.standing == Standing::active && !founded) return Error{"it adds a node as active"};
        const Vouched vouched{.institution = added.institution, .token = newcomer.token};
        if (const Result<void> entry = admits(view, added.id.node, vouched); !entry)
            return Error{"it adds " + brief(added.id.node) + ": " + entry.error().message};
        if (newcomer.token) use_up(view, *newcomer.token, added.id.node);
        view.members.insert(std::ranges::lower_bound(view.members, added.id.node, {}, node_of), added);
    }
    for (const MemberId& id : delta.activations) {
        MemberInfo* member = find_sorted(view.members, id.node, node_of);
        if (member == nullptr || member->id != id || member->standing != Standing::syncing)
            return Error{"it activates a node that is not syncing: " + brief(id.node)};
        member->standing = Standing::active;
        member->since_epoch = delta.epoch;
        member->first_step = delta.first_step;
    }
    for (const auto& [node, speed] : delta.speeds)
        if (MemberInfo* member = find_sorted(view.members, node, node_of)) member->speed = speed;
    if (delta.settlement) demote_early(view.members, delta.first_step);
    return {};
}

Result<void> change_links(View& view, const Delta& delta) {
    std::vector<LinkId> removed;
    removed.reserve(delta.link_removals.size());
    for (const LinkRemoval& removal : delta.link_removals) removed.push_back(removal.link);
    std::ranges::sort(removed);
    if (!removed.empty())
        std::erase_if(view.links, [&](const LinkInfo& link) { return std::ranges::binary_search(removed, link.id); });
    std::vector<LinkInfo> added;
    for (const LinkInfo& link : delta.link_additions) {
        if (!(link.id.a < link.id.b) || find_sorted(view.members, link.id.a, node_of) == nullptr ||
            find_sorted(view.members, link.id.b, node_of) == nullptr)
            return Error{"it adds a link whose ends are not both members"};
        if (LinkInfo* known = find_sorted(view.links, link.id, &LinkInfo::id)) {
            known->figures = link.figures;
        } else {
            added.push_back(link);
        }
    }
    if (!added.empty()) {
        view.links.insert(view.links.end(), added.begin(), added.end());
        std::ranges::sort(view.links, {}, &LinkInfo::id);
        if (std::ranges::adjacent_find(view.links, {}, &LinkInfo::id) != view.links.end())
            return Error{"it adds a link twice"};
    }
    return {};
}

void change_institutions(View& view, const Delta& delta) {
    for (const Institution& change : delta.institutions) {
        if (Institution* known = find_sorted(view.institutions, change.root, &Institution::root)) {
            known->standing = change.standing;
        } else {
            view.institutions.insert(std::ranges::lower_bound(view.institutions, change.root, {}, &Institution::root),
                                     change);
        }
    }
    for (const Revocation& revocation : delta.revocations) {
        const auto at = std::ranges::lower_bound(view.revoked, revocation);
        if (at == view.revoked.end() || *at != revocation) view.revoked.insert(at, revocation);
    }
    view.meetings.insert(view.meetings.end(), delta.meetings.begin(), delta.meetings.end());
    if (view.meetings.size() > max_meetings)
        view.meetings.erase(view.meetings.begin(), view.meetings.end() - max_meetings);
}

// A claim of 0 claims nothing.
bool within_a_quarter(std::uint64_t claim, std::uint64_t known) {
    return claim == 0 || (claim <= known + known / 4 && known <= claim + claim / 4);
}

// Of active members in order, who compute every sample exactly once.
bool redo_makes_sense(const View& view) {
    if (view.redo.empty()) return true;
    std::vector<SampleRange> all;
    for (const Share& share : view.redo) {
        if (!view.is_active(share.node)) return false;
        all.insert(all.end(), share.ranges.begin(), share.ranges.end());
    }
    std::ranges::sort(all);
    std::uint32_t at = 0;
    for (const SampleRange& range : all) {
        if (range.begin != at || range.end <= range.begin) return false;
        at = range.end;
    }
    return at == view.batch &&
           std::ranges::adjacent_find(view.redo, std::ranges::greater_equal{}, &Share::node) == view.redo.end();
}

}  // namespace

Result<void> check(const View& view) {
    if (view.members.size() > max_members) return Error{"the view would have too many members"};
    if (view.links.size() > max_links) return Error{"the view would have too many links"};
    if (view.institutions.size() > max_institutions) return Error{"the view would list too many institutions"};
    if (view.revoked.size() > max_revoked) return Error{"the view would list too many revoked nodes"};
    if (view.tokens.size() > max_tokens) return Error{"the view would list too many used tokens"};
    if (view.active == 0) return Error{"the view would have no active member"};
    for (std::size_t i = 0; i < view.members.size(); ++i)
        if (view.first_adjacent[i + 1] - view.first_adjacent[i] > max_links_per_member)
            return Error{brief(view.members[i].id.node) + " would have too many links"};
    const std::vector<bool> reached = reach(view, place_of(view, view.senior), {});
    for (std::size_t i = 0; i < reached.size(); ++i)
        if (!reached[i]) return Error{"no path of links would reach " + brief(view.members[i].id.node)};
    if (!redo_makes_sense(view)) return Error{"its members would redo samples that are none, or not once each"};
    return {};
}

bool agrees(const Figures& claims, const Figures& known) {
    return within_a_quarter(claims.delay_us, known.delay_us) && within_a_quarter(claims.rate_ab, known.rate_ab) &&
           within_a_quarter(claims.rate_ba, known.rate_ba);
}

bool differs_much(const Figures& claims, const Figures& known) {
    constexpr std::uint32_t short_delay_us = 1000;
    const auto beyond_twice = [](std::uint64_t claim, std::uint64_t before) {
        return claim > 0 && (claim > 2 * before || before > 2 * claim);
    };
    return beyond_twice(claims.rate_ab, known.rate_ab) || beyond_twice(claims.rate_ba, known.rate_ba) ||
           (std::max(claims.delay_us, known.delay_us) > short_delay_us &&
            beyond_twice(claims.delay_us, known.delay_us));
}

bool speeds_agree(std::uint64_t claim, std::uint64_t known) {
    return within_a_quarter(claim, known);
}

std::string brief(NodeId node) {
    std::array<std::uint8_t, 4> head{};
    for (unsigned i = 0; i < head.size(); ++i) head[i] = static_cast<std::uint8_t>(node.high >> (56 - 8 * i));
    return hex(head);
}

std::string brief(const Name& name) {
    return hex(std::span(name).first(4));
}

std::string_view words_of(Reason reason) {
    switch (reason) {
        case Reason::left:
            return "asked to leave";
        case Reason::failed:
            return "no path of live links reached it";
        case Reason::restarted:
            return "its process began anew";
        case Reason::cut_off:
            return "the removal of a link cut it off";
        case Reason::expelled:
            return "it voted twice in one ballot";
        case Reason::revoked:
            return "its institution revoked it";
        case Reason::institution_out:
            return "its institution was removed";
        case Reason::not_reached:
            return "no active member reached it while it was joining";
        case Reason::closed:
            return "the other host closed the connection";
        case Reason::silent:
            return "nothing was heard on it";
        case Reason::asked:
            return "one of its ends asked for it";
        case Reason::offended:
            return "its contributions were of no use, time and again";
    }
    return "";
}

const MemberInfo* View::find(NodeId node) const {
    return find_sorted(members, node, node_of);
}

bool View::has(MemberId id) const {
    const MemberInfo* member = find(id.node);
    return member != nullptr && member->id == id;
}

bool View::is_active(NodeId node) const {
    const MemberInfo* member = find(node);
    return member != nullptr && member->standing == Standing::active;
}

const LinkInfo* View::find(LinkId link) const {
    return find_sorted(links, link, &LinkInfo::id);
}

std::vector<NodeId> View::neighbours(NodeId node) const {
    std::vector<NodeId> result;
    const std::uint32_t at = place_of(*this, node);
    if (at == none) return result;
    for (std::uint32_t i = first_adjacent[at]; i < first_adjacent[at + 1]; ++i)
        result.push_back(members[adjacent[i].member].id.node);
    return result;
}

std::size_t View::degree(NodeId node) const {
    const std::uint32_t at = place_of(*this, node);
    return at == none ? 0 : first_adjacent[at + 1] - first_adjacent[at];
}

std::vector<NodeId> View::by_standing() const {
    std::vector<std::pair<std::uint64_t, NodeId>> order;
    for (const MemberInfo& member : members)
        if (member.standing == Standing::active) order.emplace_back(member.since_epoch, member.id.node);
    std::ranges::sort(order);
    std::vector<NodeId> result;
    result.reserve(order.size());
    for (const auto& [since, node] : order) result.push_back(node);
    return result;
}

bool View::institution_in(const Name& root) const {
    const Institution* institution = find_sorted(institutions, root, &Institution::root);
    return institution != nullptr && institution->standing == InstitutionStanding::in;
}

bool View::revokes(NodeId subject, const Name& institution) const {
    return std::ranges::binary_search(revoked, Revocation{.subject = subject, .by = institution}) ||
           std::ranges::binary_search(revoked, Revocation{.subject = subject, .by = {}});
}

const UsedToken* View::find_token(NodeId token) const {
    return find_sorted(tokens, token, id_of);
}

void complete(View& view) {
    view.active = 0;
    std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
    for (const MemberInfo& member : view.members) {
        if (member.standing != Standing::active) continue;
        ++view.active;
        if (member.since_epoch < oldest) {
            oldest = member.since_epoch;
            view.senior = member.id.node;
        }
    }
    // Links are sorted by their first end, so only the second needs a search, in a list as compact as can be.
    std::vector<NodeId> nodes;
    nodes.reserve(view.members.size());
    for (const MemberInfo& member : view.members) nodes.push_back(member.id.node);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ends(view.links.size(), {none, none});
    view.first_adjacent.assign(view.members.size() + 1, 0);
    std::uint32_t first = 0;
    for (std::size_t i = 0; i < view.links.size(); ++i) {
        const LinkId id = view.links[i].id;
        while (first < nodes.size() && nodes[first] < id.a) ++first;
        const auto at = std::lower_bound(nodes.begin() + first, nodes.end(), id.b);
        if (first == nodes.size() || nodes[first] != id.a || at == nodes.end() || *at != id.b) continue;
        const auto other = static_cast<std::uint32_t>(at - nodes.begin());
        ends[i] = {first, other};
        ++view.first_adjacent[first + 1];
        ++view.first_adjacent[other + 1];
    }
    for (std::size_t i = 1; i < view.first_adjacent.size(); ++i) view.first_adjacent[i] += view.first_adjacent[i - 1];
    view.adjacent.assign(view.first_adjacent.back(), {});
    std::vector<std::uint32_t> next(view.first_adjacent.begin(), view.first_adjacent.end() - 1);
    for (std::uint32_t i = 0; i < ends.size(); ++i) {
        const auto [x, y] = ends[i];
        if (x == none) continue;
        view.adjacent[next[x]++] = {.member = y, .link = i};
        view.adjacent[next[y]++] = {.member = x, .link = i};
    }
}

Name founder_name(const Founding& founding) {
    return name_bytes("chaos founding", encode(founding));
}

ViewPtr found(const Founding& founding) {
    auto view = std::make_shared<View>();
    view->name = view->founder = founder_name(founding);
    view->run = founding.run;
    view->planner = founding.planner;
    view->batch = founding.batch;
    view->strict = founding.strict;
    view->members = {founding.founder};
    view->members[0].standing = Standing::active;
    view->institutions = founding.institutions;
    std::ranges::sort(view->institutions, {}, &Institution::root);
    view->tokens = founding.tokens;
    std::ranges::sort(view->tokens, {}, id_of);
    complete(*view);
    return view;
}

Name name_of(const Delta& delta) {
    return name_bytes("chaos view", encode(delta));
}

Result<ViewPtr> apply(const View& parent, const View* governing, const Delta& delta) {
    if (delta.parent != parent.name || delta.epoch != parent.epoch + 1) return Error{"it follows another view"};
    if (delta.settlement ? delta.first_step != delta.settlement->applied : delta.first_step < parent.first_step)
        return Error{"its first step does not fit"};
    if (delta.settlement && !delta.activations.empty()) return Error{"a settlement activates nobody"};
    if (delta.fork == Fork::waited && parent.strict) return Error{"under the policy strict, no line forks by itself"};
    if (delta.fork == Fork::forced && !parent.strict)
        return Error{"under the policy continue, nobody has to force a line to fork"};
    auto view = std::make_shared<View>(parent);
    view->parent = parent.name;
    view->name = name_of(delta);
    view->epoch = delta.epoch;
    view->first_step = delta.first_step;
    view->fork = delta.fork;
    view->settlement = delta.settlement;
    view->redo.clear();
    change_institutions(*view, delta);
    CHAOS_CHECK(change_members(*view, delta));
    CHAOS_CHECK(change_links(*view, delta));
    complete(*view);
    CHAOS_CHECK(check(*view));
    view->redo_known = true;
    // Where only members go on that took no part in the step so far, nobody holds any of its gradients.
    const bool begun = std::ranges::any_of(view->members, [&](const MemberInfo& member) {
        const MemberInfo* before = parent.find(member.id.node);
        return member.standing == Standing::active && before != nullptr && before->first_step <= delta.first_step;
    });
    if (delta.settlement && !delta.settlement->founded && begun) {
        view->redo_known = governing != nullptr && (governing->redo_known || governing->first_step != view->first_step);
        if (view->redo_known) view->redo = redo_shares(*governing, *view);
    }
    return ViewPtr(view);
}

void demote_early(std::vector<MemberInfo>& members, std::uint64_t step) {
    const bool somebody_stays = std::ranges::any_of(members, [&](const MemberInfo& member) {
        return member.standing == Standing::active && member.first_step <= step;
    });
    for (MemberInfo& member : members) {
        if (member.standing != Standing::active || member.first_step <= step) continue;
        if (somebody_stays) {
            member.standing = Standing::syncing;
        } else {
            member.first_step = step;
        }
    }
}

bool is_quorum(const View& view, std::span<const NodeId> voters) {
    if (CHAOS_PLANTED(no_quorum)) return !voters.empty();
    std::size_t votes = 0;
    for (const NodeId voter : voters)
        if (view.is_active(voter)) ++votes;
    if (2 * votes != view.active) return 2 * votes > view.active;
    return std::ranges::binary_search(voters, view.senior);
}

std::vector<Share> shares_of(const View& view, std::uint64_t step) {
    if (step == view.first_step && view.settlement) {
        CHAOS_ASSERT(view.redo_known);
        if (!view.redo.empty()) return view.redo;
    }
    const std::vector<std::uint32_t> counts = divide(view.batch, weights_of(view, step, true), step);
    std::vector<Share> shares;
    std::uint32_t begin = 0;
    for (const MemberInfo& member : view.members) {
        if (member.standing != Standing::active) continue;
        const std::uint32_t count = counts[shares.size()];
        Share share{.node = member.id.node, .ranges = {}};
        if (count > 0) share.ranges.push_back({.begin = begin, .end = begin + count});
        begin += count;
        shares.push_back(std::move(share));
    }
    return shares;
}

std::vector<NodeId> reachable_from(const View& view, NodeId start, std::span<const LinkId> down) {
    std::vector<NodeId> result;
    const std::uint32_t at = place_of(view, start);
    if (at == none) return result;
    const std::vector<bool> reached = reach(view, at, down);
    for (std::size_t i = 0; i < reached.size(); ++i)
        if (reached[i]) result.push_back(view.members[i].id.node);
    return result;
}

Nanoseconds eccentricity(const View& view, NodeId start) {
    constexpr Nanoseconds unknown_delay = 5 * millisecond;
    const std::uint32_t origin = place_of(view, start);
    if (origin == none) return unknown_delay;
    std::vector<Nanoseconds> distance(view.members.size(), std::numeric_limits<Nanoseconds>::max());
    using Entry = std::pair<Nanoseconds, std::uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    distance[origin] = 0;
    queue.emplace(0, origin);
    Nanoseconds farthest = 0;
    while (!queue.empty()) {
        const auto [at_distance, at] = queue.top();
        queue.pop();
        if (at_distance != distance[at]) continue;
        farthest = at_distance;
        for (std::uint32_t i = view.first_adjacent[at]; i < view.first_adjacent[at + 1]; ++i) {
            const std::uint32_t delay_us = view.links[view.adjacent[i].link].figures.delay_us;
            const Nanoseconds next = at_distance + (delay_us > 0 ? Nanoseconds{delay_us} * 1000 : unknown_delay);
            if (next >= distance[view.adjacent[i].member]) continue;
            distance[view.adjacent[i].member] = next;
            queue.emplace(next, view.adjacent[i].member);
        }
    }
    return farthest;
}

std::optional<std::vector<SampleRange>> beyond(std::span<const SampleRange> held, std::span<const SampleRange> share) {
    if (held.size() > share.size() || !std::ranges::equal(held, share.first(held.size()))) return std::nullopt;
    const auto more = share.subspan(held.size());
    return std::vector<SampleRange>(more.begin(), more.end());
}

}  // namespace chaos::cluster
