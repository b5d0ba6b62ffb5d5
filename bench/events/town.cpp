#include "town.h"

#include "base/cpu_time.h"
#include "base/random.h"
#include "plan/view_request.h"
#include "signers.h"

#include <algorithm>
#include <limits>

namespace chaos::bench {

using namespace cluster;

struct Town::House {
    NodeId id;
    std::uint32_t place = 0;
    std::unique_ptr<Signer> signer;
    std::unique_ptr<Member> member;
    bool up = true;
    Nanoseconds woken_at = 0;  // the next Tick that is on its way
    std::optional<std::uint64_t> running;
    std::uint64_t epoch = 0;
    Cost cost;
};

Town::Town(const TownSettings& settings) : settings_(settings) {
    const std::uint64_t seed = settings.seed;
    std::vector<NodeId> nodes;
    Residents residents = make_residents(seed, settings.members, settings.real_signatures);
    nodes.reserve(settings.members);
    for (const Resident& resident : residents.nodes) nodes.push_back(resident.id);
    auto view = std::make_shared<View>();
    view->name = view->founder = sha256("town");
    view->batch = 4096;
    view->institutions = {{.root = residents.institution}};
    for (const NodeId node : nodes) {
        MemberInfo member;
        member.id = {.node = node, .incarnation = 1};
        member.standing = Standing::active;
        member.institution = residents.institution;
        member.speed = 100;
        view->members.push_back(member);
    }
    // A ring, so that it hangs together, and random links up to the degree.
    std::set<LinkId> links;
    const std::uint64_t count = nodes.size();
    for (std::uint64_t i = 0; i < count; ++i) links.insert(link_between(nodes[i], nodes[(i + 1) % count]));
    const std::uint64_t wanted = std::min(count * settings.degree / 2, count * (count - 1) / 2);
    for (std::uint64_t i = 0; links.size() < wanted; ++i) {
        const NodeId x = nodes[random_bits(seed, 3, i) % count];
        const NodeId y = nodes[random_bits(seed, 4, i) % count];
        if (x != y) links.insert(link_between(x, y));
    }
    for (const LinkId link : links) {
        const std::uint64_t bits = random_bits(seed, link.a.low, link.b.low);
        view->links.push_back({.id = link,
                               .figures = {.rate_ab = static_cast<std::uint32_t>(12'500 + bits % 112'500),
                                           .rate_ba = static_cast<std::uint32_t>(12'500 + (bits >> 20) % 112'500),
                                           .delay_us = static_cast<std::uint32_t>(delay(link.a, link.b) / 1000)}});
    }
    complete(*view);

    options_.detect = std::max<Nanoseconds>(second, 4 * settings.delay_high);
    options_.heartbeat = options_.detect / 4;
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
        auto house = std::make_unique<House>();
        house->id = nodes[i];
        house->place = i;
        house->signer = std::move(residents.nodes[i].signer);
        Identity identity;
        identity.member = {.node = nodes[i], .incarnation = 2};
        identity.credential = residents.nodes[i].credential;
        identity.speed = 100;
        DiskRecord record;
        record.view = view;
        house->member = std::make_unique<Member>(options_, identity, *house->signer, record, Checkpoint{}, 0);
        places_[nodes[i]] = i;
        houses_.push_back(std::move(house));
        put(0, i, Tick{});
    }
    // All begin as if everybody had been down, connected along the overlay.
    for (const LinkId link : links) {
        open_.insert(link);
        put(0, places_.at(link.a), LinkUp{link.b});
        put(0, places_.at(link.b), LinkUp{link.a});
    }
    const bool founded = run_until([&] { return all_at(1); }, 300 * second);
    CHAOS_ASSERT(founded);
    // Looking for each other, they connected to many; what is not a link is closed after a while.
    run_until([&] { return open_.size() <= houses_[0]->member->view()->links.size() * 51 / 50 + 2; }, 60 * second);
}

Town::~Town() = default;

Town::House& Town::house(NodeId node) {
    return *houses_[places_.at(node)];
}

Nanoseconds Town::delay(NodeId x, NodeId y) const {
    const LinkId link = link_between(x, y);
    const std::uint64_t bits = random_bits(settings_.seed ^ 77, link.a.low, link.b.low);
    const auto range = static_cast<std::uint64_t>(settings_.delay_high - settings_.delay_low + 1);
    return settings_.delay_low + static_cast<Nanoseconds>(bits % range);
}

void Town::put(Nanoseconds at, std::uint32_t house, Event event) {
    queue_.push({.at = at, .order = ++order_, .house = house, .event = std::move(event)});
}

bool Town::run_until(const std::function<bool()>& condition, Nanoseconds limit) {
    const Nanoseconds end = now_ + limit;
    for (std::uint64_t i = 0; !queue_.empty(); ++i) {
        if (i % 64 == 0 && condition()) return true;
        Item item = queue_.top();
        queue_.pop();
        if (item.at > end) return condition();
        now_ = item.at;
        deliver(item);
    }
    return false;
}

bool Town::all_at(std::uint64_t epoch) const {
    return std::ranges::all_of(houses_, [&](const auto& house) {
        return !house->up || (house->member->role() == Role::active && house->epoch >= epoch);
    });
}

void Town::deliver(Item& item) {
    House& target = *houses_[item.house];
    if (!target.up) return;
    bool background = false;
    if (const auto* received = std::get_if<Received>(&item.event)) {
        if (!open_.contains(link_between(target.id, received->from))) return;
        background = std::holds_alternative<Heartbeat>(received->message->body);
    }
    if (std::holds_alternative<Tick>(item.event)) {
        if (item.at != target.woken_at && item.at != 0) return;
        target.woken_at = 0;
    }
    if (const auto* applied = std::get_if<Applied>(&item.event)) {
        if (target.running != applied->step) return;
        target.running.reset();
        background = true;
    }
    const std::uint64_t before = measuring_ && !background ? thread_cpu_ns() : 0;
    Actions actions = target.member->step(item.event, now_);
    if (measuring_ && !background) target.cost.cpu_ns += thread_cpu_ns() - before;
    for (Action& action : actions) carry_out(target, action);
    const Nanoseconds wake = std::max(target.member->wake_at(), now_ + 1);
    if (target.woken_at == 0 || wake < target.woken_at) {
        target.woken_at = wake;
        put(wake, item.house, Tick{});
    }
}

void Town::carry_out(House& from, Action& action) {
    if (auto* send = std::get_if<Send>(&action)) {
        if (!open_.contains(link_between(from.id, send->to))) return;
        if (!std::holds_alternative<Heartbeat>(send->message->body)) {
            ++from.cost.messages;
            from.cost.bytes += send->message->bytes.size();
        }
        if (measuring_ && !proposer_) {
            const Stamp* stamp = stamp_of(send->message->body);
            const bool proposes = std::holds_alternative<Accept>(send->message->body) ||
                                  std::holds_alternative<Prepare>(send->message->body);
            if (proposes && stamp->author.node == from.id) {
                proposer_ = from.id;
                proposed_at_ = now_;
            }
        }
        put(now_ + delay(from.id, send->to), places_.at(send->to), Received{.from = from.id, .message = send->message});
    } else if (auto* dial = std::get_if<Dial>(&action)) {
        House& peer = house(dial->peer);
        const Nanoseconds way = delay(from.id, dial->peer);
        if (!peer.up) return put(now_ + 2 * way, from.place, DialFailed{dial->peer});
        open_.insert(link_between(from.id, dial->peer));
        put(now_ + way, peer.place, LinkUp{from.id});
        put(now_ + 2 * way, from.place, LinkUp{dial->peer});
    } else if (auto* close = std::get_if<CloseLink>(&action)) {
        open_.erase(link_between(from.id, close->peer));
        put(now_ + delay(from.id, close->peer), places_.at(close->peer), LinkClosed{from.id});
    } else if (auto* adopted = std::get_if<Adopted>(&action)) {
        from.epoch = adopted->view->epoch;
        adopted_at_ = now_;
        if (!settings_.plans) return;
        const std::uint64_t before = thread_cpu_ns();
        const auto plan = plan::plan_sync(plan::sync_request_of(*adopted->view, 100'000'000).request);
        CHAOS_ASSERT(plan.ok());
        if (measuring_) from.cost.cpu_ns += thread_cpu_ns() - before;
    } else if (auto* start = std::get_if<StartStep>(&action)) {
        from.running = start->step;
        auto& who = begun_[{start->step, start->view->name}];
        who.push_back(from.place);
        if (who.size() < start->view->active_count()) return;
        for (const std::uint32_t place : who) put(now_ + settings_.step_time, place, Applied{start->step});
        begun_.erase(begun_.begin(), begun_.lower_bound({start->step, {}}));
    } else if (std::holds_alternative<StopStep>(action)) {
        from.running.reset();
    } else if (auto* take = std::get_if<TakeResult>(&action)) {
        from.running = take->step;
        put(now_ + settings_.delay_high, from.place, Applied{take->step});
    } else if (std::holds_alternative<Left>(action)) {
        from.up = false;
    }
}

std::vector<Nanoseconds> Town::distances(const View& view, NodeId from) const {
    std::vector<Nanoseconds> distance(view.members.size(), std::numeric_limits<Nanoseconds>::max());
    using Entry = std::pair<Nanoseconds, std::uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (std::uint32_t i = 0; i < view.members.size(); ++i)
        if (view.members[i].id.node == from) queue.emplace(distance[i] = 0, i);
    while (!queue.empty()) {
        const auto [reached, at] = queue.top();
        queue.pop();
        if (reached != distance[at]) continue;
        for (std::uint32_t i = view.first_adjacent[at]; i < view.first_adjacent[at + 1]; ++i) {
            const std::uint32_t next = view.adjacent[i].member;
            const Nanoseconds way = reached + delay(view.members[at].id.node, view.members[next].id.node);
            if (way < distance[next]) queue.emplace(distance[next] = way, next);
        }
    }
    return distance;
}

Nanoseconds Town::spreading_limit(const View& view, NodeId proposer) const {
    Nanoseconds diameter = 0;
    for (const MemberInfo& member : view.members)
        diameter = std::max(diameter, std::ranges::max(distances(view, member.id.node)));
    std::vector<Nanoseconds> ways = distances(view, proposer);
    std::ranges::sort(ways);
    const Nanoseconds majority = 2 * ways[ways.size() / 2];
    return majority + diameter * 12 / 10;
}

std::optional<Town::Place> Town::find_place(TownEvent event) {
    std::vector<std::uint32_t> up;
    for (const auto& house : houses_)
        if (house->up && house->member->view()) up.push_back(house->place);
    const auto draw = [&](std::size_t below) { return random_bits(settings_.seed, 9, ++draws_) % below; };
    const View& view = *houses_[up[0]]->member->view();
    constexpr int draws_at_most = 1000;
    for (int i = 0; i < draws_at_most; ++i) {
        House& chosen = *houses_[up[draw(up.size())]];
        const std::vector<NodeId> neighbours = view.neighbours(chosen.id);
        if (neighbours.empty()) continue;
        NodeId other = neighbours[draw(neighbours.size())];
        if (event == TownEvent::disconnect_link && neighbours.size() < 3) continue;
        if (event == TownEvent::connect_link) {
            other = houses_[up[draw(up.size())]]->id;
            if (other == chosen.id || view.find(link_between(chosen.id, other)) != nullptr) continue;
        }
        return Place{.house = chosen.place, .other = other};
    }
    return std::nullopt;
}

void Town::begin(TownEvent event, const Place& place) {
    House& chosen = *houses_[place.house];
    switch (event) {
        case TownEvent::scale_in:
            return put(now_, chosen.place, LeaveCommand{});
        case TownEvent::connect_link:
            return put(now_, chosen.place, ConnectCommand{place.other});
        case TownEvent::disconnect_link:
            return put(now_, chosen.place, DisconnectCommand{place.other});
        case TownEvent::failure:
            chosen.up = false;
            for (const NodeId peer : chosen.member->view()->neighbours(chosen.id)) {
                open_.erase(link_between(chosen.id, peer));
                put(now_ + delay(chosen.id, peer), places_.at(peer), LinkClosed{chosen.id});
            }
            return;
    }
}

std::optional<Handling> Town::happen(TownEvent event) {
    const std::optional<Place> place = find_place(event);
    if (!place) return std::nullopt;
    const ViewPtr before = houses_[place->house]->member->view();
    for (const auto& house : houses_) house->cost = {};
    proposer_.reset();
    measuring_ = true;
    begin(event, *place);
    const bool done = run_until(
        [&] {
            return std::ranges::all_of(houses_,
                                       [&](const auto& house) { return !house->up || house->epoch > before->epoch; });
        },
        60 * second);
    measuring_ = false;
    if (!done || !proposer_) return std::nullopt;
    Handling handling;
    handling.spreading = adopted_at_ - proposed_at_;
    handling.spreading_limit = spreading_limit(*before, *proposer_);
    std::uint64_t step = 0;
    for (const auto& house : houses_) {
        if (!house->up) continue;
        handling.costs.push_back(house->cost);
        if (const ViewPtr view = house->member->view()) step = std::max(step, view->first_step);
    }
    // Let it come into force before the next one.
    const bool in_force = run_until(
        [&] {
            return std::ranges::all_of(
                houses_, [&](const auto& house) { return !house->up || house->member->applied() > step; });
        },
        60 * second);
    if (!in_force) return std::nullopt;
    return handling;
}

}  // namespace chaos::bench
