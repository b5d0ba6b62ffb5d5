#include "sim/world.h"

#include "base/assert.h"
#include "base/random.h"
#include "cluster/compose.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <span>

namespace chaos::sim {

using cluster::Standing;
using cluster::ViewPtr;

namespace {

constexpr Time poll_every = 500 * millisecond;
constexpr std::size_t max_contacts = 64;
constexpr Host share_views_from = 64;
// In some runs of few nodes, each computes its own plans; in the others that would only cost time.
constexpr std::uint64_t plan_each_every = 8;
constexpr Host plan_each_up_to = 10;
constexpr std::uint64_t most_events = 6'000'000;  // many times what a run has

}  // namespace

World::World(const Setup& setup, const Watching& watching)
    : setup_(setup),
      watching_(watching),
      toy_(make_toy(setup.seed, setup.batch)),
      network_(setup.seed, setup.hosts, setup.paths),
      invariants_(toy_, setup.strict),
      frozen_(setup.hosts),
      last_commit_(setup.hosts, 0),
      commits_(setup.hosts, 0) {
    // Many members share the views they compute; few compute their own, which the invariants compare.
    if (setup_.hosts > share_views_from) setup_.options.views = std::make_shared<cluster::ViewCache>();
    if (setup_.seed % plan_each_every == 0 && setup_.hosts <= plan_each_up_to) {
        for (Host host = 0; host < setup_.hosts; ++host)
            planners_.emplace_back(toy_, setup_.plan, node_of(setup_.seed, host));
    } else {
        planners_.emplace_back(toy_, setup_.plan, std::nullopt);
    }
    for (Host host = 0; host < setup_.hosts; ++host) nodes_.push_back(std::make_unique<Node>(*this, host));
}

World::~World() = default;

void World::run() {
    for (std::size_t i = 0; i < setup_.faults.size(); ++i) {
        Event event;
        event.kind = Event::Kind::fault;
        event.tag = i;
        queue_.push(setup_.faults[i].at, std::move(event));
    }
    queue_.push(0, Event{});  // the first poll
    if (setup_.prepared) prepare_cluster();
    boot(0, !setup_.prepared);
    for (Host host = 1; host < setup_.nodes; ++host) {
        if (setup_.prepared) {
            boot(host, false);
            continue;
        }
        setup_.faults.push_back(
            {.at = Time{host} * 20 * millisecond, .kind = FaultKind::join, .host = host, .other = 0, .value = 0});
        Event event;
        event.kind = Event::Kind::fault;
        event.tag = setup_.faults.size() - 1;
        queue_.push(setup_.faults.back().at, std::move(event));
    }
    while (!done_ && !queue_.empty() && !invariants_.failure()) {
        now_ = queue_.next_at();
        Event event = queue_.pop();
        if (++statistics_.events > most_events && setup_.hosts <= share_views_from)
            invariants_.fail("a storm: more than " + std::to_string(most_events) + " events");
        handle(event);
        // Who has left, or was told never to come back, ends its process.
        if (Node& node = *nodes_[event.host]; node.finished && node.running()) end(event.host, false);
    }
    statistics_.ended_at = now_;
}

Statistics World::statistics() const {
    Statistics result = statistics_;
    result.steps = invariants_.committed_steps();
    result.forks = invariants_.forks();
    result.foundings = invariants_.foundings();
    for (const auto& node : nodes_) result.stalled += node->stalled;
    return result;
}

std::string busiest_kinds(const Statistics& statistics) {
    constexpr std::size_t most_told = 4;
    std::vector<Statistics::Kind> kinds(statistics.kinds.begin(), statistics.kinds.end());
    std::stable_sort(kinds.begin(), kinds.end(), [](const auto& x, const auto& y) { return x.bytes > y.bytes; });
    std::string text;
    for (std::size_t i = 0; i < most_told && kinds[i].messages > 0; ++i)
        text += std::string(i > 0 ? ", " : "") + std::string(kinds[i].name) + " " +
                std::to_string(kinds[i].bytes * 100 / std::max<std::uint64_t>(statistics.bytes, 1)) + " %";
    return text;
}

void World::trace_line(const std::string& who, const std::string& text) {
    std::array<char, 32> head{};
    std::snprintf(head.data(), head.size(), "%10.4f s  %-4s ", static_cast<double>(now_) / second, who.c_str());
    const std::string line = head.data() + text + "\n";
    if (watching_.trace) std::fputs(line.c_str(), stdout);
    if (watching_.trace_hash) trace_hash_ = random_bits(trace_hash_, 0, xxh3(std::as_bytes(std::span(line))));
}

void World::trace(Host host, const std::string& text) {
    trace_line("n" + std::to_string(host), text);
}

std::uint64_t World::state_hash() const {
    std::uint64_t hash = 0;
    for (const auto& node : nodes_)
        if (node->running()) hash = random_bits(hash, node->self().low, node->trainer().store().state().hash());
    return hash;
}

cluster::Founding World::founding() const {
    cluster::Founding founding;
    founding.run = toy_.name;
    founding.batch = toy_.batch;
    founding.strict = setup_.strict;
    founding.institutions = {{.root = institution_root(0)}, {.root = institution_root(1)}};
    std::sort(founding.institutions.begin(), founding.institutions.end(),
              [](const auto& x, const auto& y) { return x.root < y.root; });
    return founding;
}

// Everybody who will ever be there, those of the beginning first: nobody is lost because all whom it knows are gone.
std::vector<cluster::Candidate> World::contacts_for(Host host) const {
    std::vector<cluster::Candidate> contacts;
    const auto add = [&](Host other) {
        if (other != host)
            contacts.push_back({.node = node_of(setup_.seed, other), .address = "n" + std::to_string(other)});
    };
    add(0);
    const Host skip = static_cast<Host>(random_bits(setup_.seed, 0x636f6e74, host) % setup_.nodes);
    for (Host i = 0; i < setup_.nodes && contacts.size() < max_contacts; ++i)
        if (const Host other = (skip + i) % setup_.nodes; other != 0) add(other);
    for (Host other = setup_.nodes; other < setup_.hosts && contacts.size() < max_contacts; ++other) add(other);
    return contacts;
}

void World::boot(Host host, bool founds) {
    if (nodes_[host]->running()) return;
    frozen_[host].clear();
    if (tracing()) trace(host, nodes_[host]->started ? "starts again" : "starts");
    nodes_[host]->boot(founds);
}

void World::end(Host host, bool silently) {
    Node& node = *nodes_[host];
    if (!node.running()) return;
    node.silent = silently;
    const auto connections = node.connections;
    for (const auto& [peer, connection] : connections) {
        forget_connection(host, connection);
        if (!silently) hang_up(host, connection, 0);
    }
    node.end();
    frozen_[host].clear();
}

// ---- what nodes report

void World::adopted(Host host, const ViewPtr& view) {
    if (invariants_.adopted(host, view)) {
        ++statistics_.views;
        if (view->is_fork()) check_fork(host, *view);
        check_trust(host, *view);
    }
    if (tracing())
        trace(host, "adopts view " + std::to_string(view->epoch) + " " + cluster::brief(view->name) +
                        (view->is_fork() ? " (a fork)" : "") + ": " + std::to_string(view->active_count()) +
                        " active of " + std::to_string(view->members.size()) + ", " +
                        std::to_string(view->links.size()) + " links, from step " + std::to_string(view->first_step));
}

// Nobody is in without its institution's word, and nobody is out by an institution's word that was not given.
void World::check_trust(Host host, const cluster::View& view) {
    std::map<std::uint32_t, Host> by_token;
    for (const cluster::MemberInfo& member : view.members) {
        const Host other = host_of(member.id.node);
        const std::uint32_t token = setup_.tokens[other];
        const std::string who = "adopts a view that lists n" + std::to_string(other);
        if (setup_.impostors[other] != Impostor::none) invariants_.fail(host, who + ", an impostor");
        if (member.institution != institution_root(setup_.institutions[other]))
            invariants_.fail(host, who + " as of another institution");
        if (token != 0 && !by_token.emplace(token, other).second)
            invariants_.fail(host, who + " and n" + std::to_string(by_token[token]) + ", who have one join token");
    }
    for (const cluster::Revocation& revocation : view.revoked) {
        const bool expelled = revocation.by == cluster::Name{};
        if (expelled ? nodes_[host_of(revocation.subject)]->double_votes == 0 : !revoked_.contains(revocation))
            invariants_.fail(host, "adopts a view that bars " + cluster::brief(revocation.subject) + " for no reason");
    }
}

// A fork needs a reason: the lost were closed by their hosts, or nobody has heard of them for the agreed time.
void World::check_fork(Host host, const cluster::View& view) {
    const ViewPtr parent = invariants_.view(view.parent);
    if (parent == nullptr) return;
    bool all_closed = true;
    for (const cluster::MemberInfo& member : parent->members) {
        if (member.standing != Standing::active || view.has(member.id)) continue;
        const Node& lost = *nodes_[host_of(member.id.node)];
        // One that came back in another life, or in another line, is no longer that member.
        const bool same_life = lost.running() && lost.member().id() == member.id;
        if (same_life || (!lost.running() && lost.silent)) all_closed = false;
    }
    if (!all_closed && now_ - last_commit_[host] < setup_.options.fork_after / 10 * 7)
        invariants_.fail(host, "forks to view " + std::to_string(view.epoch) + " without having waited");
}

void World::applied(Host host, const AppliedStep& step) {
    const bool first = invariants_.applied(host, nodes_[host]->member().id(), step);
    if (step.how == How::exchanged) {
        if (healed_ && statistics_.resumed == 0) statistics_.resumed = now_ - setup_.quiet_at;
        check_single(host);
        last_commit_[host] = now_;
    }
    if (!first || step.how != How::exchanged) return;
    // The result is complete, so everybody contributed; who contributes to a step has applied all before it.
    const ViewPtr view = invariants_.view(step.result->record.view);
    if (view == nullptr) return;
    for (const cluster::MemberInfo& member : view->members) {
        if (member.standing != Standing::active) continue;
        const Node& other = *nodes_[host_of(member.id.node)];
        if (other.running() && other.member().id() == member.id &&
            other.trainer().store().applied() < step.result->record.step)
            invariants_.fail(host_of(member.id.node), "has not applied step " +
                                                          std::to_string(step.result->record.step - 1) +
                                                          " although the next one is complete");
    }
}

void World::poll() {
    if (watching_.timeline) {
        Sample sample;
        sample.at = now_;
        std::vector<cluster::Name> lines;
        for (const auto& node : nodes_) {
            if (!node->running()) continue;
            ++sample.running;
            if (node->member().role() != cluster::Role::active) continue;
            ++sample.active;
            lines.push_back(node->member().view()->name);
        }
        std::sort(lines.begin(), lines.end());
        sample.lines = static_cast<std::uint32_t>(std::unique(lines.begin(), lines.end()) - lines.begin());
        const Statistics sums = statistics();
        sample.steps = sums.steps;
        sample.messages = sums.messages;
        sample.stalled = sums.stalled;
        samples_.push_back(sample);
    }
    if (!healed_ && now_ >= setup_.quiet_at) heal();
    if (healed_) {
        if (statistics_.stopped_rightly) {
            done_ = true;
        } else {
            if (train_together() && statistics_.recovered == 0) {
                statistics_.recovered = now_ - setup_.quiet_at;
                check_recovered();
            }
            done_ = statistics_.recovered > 0 && (!somebody_leaves() || leavers_are_last());
            if (!done_) check_patience();
        }
    }
    if (!done_) queue_.push(now_ + poll_every, Event{});
}

// Every disk holds the record of a cluster that went down: the way to begin with many members at once.
void World::prepare_cluster() {
    cluster::Founding start = founding();
    start.founder.id = {.node = node_of(setup_.seed, 0), .incarnation = 1};
    start.founder.institution = institution_root(0);
    start.tokens = {{.token = token_of(setup_.seed, setup_.tokens[0]), .node = start.founder.id.node}};
    start.founder.address = "n0";
    auto view = std::make_shared<cluster::View>(*cluster::found(start));
    view->members.clear();
    for (Host host = 0; host < setup_.nodes; ++host) {
        cluster::MemberInfo& member = view->members.emplace_back();
        member.id = {.node = node_of(setup_.seed, host), .incarnation = 1};
        member.institution = institution_root(setup_.institutions[host]);
        member.standing = Standing::active;
        member.speed = setup_.speeds[host];
        member.address = "n" + std::to_string(host);
    }
    std::sort(view->members.begin(), view->members.end(), [](const auto& x, const auto& y) { return x.id < y.id; });
    const auto link = [&](Host a, Host b) {
        cluster::LinkInfo& made = view->links.emplace_back();
        made.id = cluster::link_between(node_of(setup_.seed, a), node_of(setup_.seed, b));
        made.figures.delay_us = static_cast<std::uint32_t>(network_.at(network_.path(a, b)).delay / microsecond);
    };
    // Cycles through all hosts in different orders: every degree is the number of links wanted.
    for (std::uint32_t cycle = 0; cycle < std::max(1U, setup_.options.links_wanted / 2); ++cycle) {
        std::vector<Host> order(setup_.nodes);
        for (Host host = 0; host < setup_.nodes; ++host) order[host] = host;
        for (Host i = setup_.nodes - 1; i > 0; --i)
            std::swap(order[i], order[random_bits(setup_.seed, 0x6379636c + cycle, i) % (std::uint64_t{i} + 1)]);
        for (Host i = 0; i < setup_.nodes; ++i)
            if (setup_.nodes > 1) link(order[i], order[(i + 1) % setup_.nodes]);
    }
    std::sort(view->links.begin(), view->links.end(), [](const auto& x, const auto& y) { return x.id < y.id; });
    view->links.erase(
        std::unique(view->links.begin(), view->links.end(), [](const auto& x, const auto& y) { return x.id == y.id; }),
        view->links.end());
    view->epoch = 1;
    view->parent = view->name;
    cluster::complete(*view);
    view->name = sha256("prepared " + std::to_string(setup_.seed));
    const Snapshot beginning = ToyState(toy_).snapshot();
    for (Host host = 0; host < setup_.nodes; ++host) {
        nodes_[host]->disk.record.emplace();
        nodes_[host]->disk.record->view = view;
        nodes_[host]->disk.checkpoints.push_back(beginning);
    }
    invariants_.adopted(0, view);
}

}  // namespace chaos::sim
