// World: connections between processes, and what travels on them.
#include "base/random.h"
#include "sim/world.h"

#include <algorithm>

namespace chaos::sim {
namespace {

constexpr Time dial_timeout = 1 * second;
constexpr Time stream_retries_after = 200 * millisecond;
constexpr std::uint8_t stream_retries = 40;
constexpr std::size_t max_frozen = 100'000;
constexpr Time handling = 20 * microsecond;  // of one message; counts for slow nodes only

}  // namespace

const std::pair<Host, std::uint64_t>* World::find_connection(Host host, Host peer) const {
    for (const auto& connection : nodes_[host]->connections)
        if (connection.first == peer) return &connection;
    return nullptr;
}

void World::send(Host from, Host to, const cluster::MessagePtr& message) {
    const auto* found = find_connection(from, to);
    if (found == nullptr) return;
    ++statistics_.messages;
    statistics_.bytes += message->bytes.size();
    Statistics::Kind& kind = statistics_.kinds[message->body.index()];
    kind.name = cluster::kind_of(message->body);
    ++kind.messages;
    kind.bytes += message->bytes.size();
    const Connection& wire = wires_[found->second];
    const std::uint32_t path = wire.path[wire.side_of(from)];
    const std::uint64_t number = network_.at(path).messages;
    const Arrivals arrivals = network_.send(path, now_);
    if (arrivals.first < 0) return;
    Event event;
    event.kind = Event::Kind::message;
    event.host = to;
    event.peer = from;
    event.tag = found->second;
    event.payload = message;
    const std::uint64_t draw = random_bits(setup_.seed ^ 0x666c6970, std::uint64_t{from} << 32 | to, number);
    if (network_.corrupts(from, draw)) {
        auto bytes = std::make_shared<std::vector<std::uint8_t>>(message->bytes);
        (*bytes)[(draw >> 20) % bytes->size()] ^= static_cast<std::uint8_t>(1 + (draw >> 56) % 255);
        event.kind = Event::Kind::garbled;
        event.payload = std::move(bytes);
    }
    if (arrivals.second >= 0) queue_.push(arrivals.second, event);
    queue_.push(arrivals.first, std::move(event));
}

void World::send_bulk(Host from, Host to, const BulkPtr& bulk) {
    const auto* found = find_connection(from, to);
    if (found == nullptr) return;
    const Connection& wire = wires_[found->second];
    Event event;
    event.kind = Event::Kind::bulk;
    event.host = to;
    event.peer = from;
    event.tag = found->second;
    event.payload = bulk;
    queue_.push(network_.send_bulk(wire.path[wire.side_of(from)], bulk->bytes, now_), std::move(event));
}

void World::dial(Host from, Host to) {
    if (to >= nodes_.size() || to == from) return;
    Event request;
    request.kind = Event::Kind::dialled;
    request.host = to;
    request.peer = from;
    request.tag = ++dials_;
    request.life = nodes_[from]->life();
    nodes_[from]->dials.emplace_back(to, dials_);
    const Arrivals arrivals = network_.send(network_.path(from, to), now_, true);
    if (arrivals.first >= 0) queue_.push(arrivals.first, std::move(request));
    Event failed;
    failed.kind = Event::Kind::dial_failed;
    failed.host = from;
    failed.peer = to;
    failed.tag = dials_;
    failed.life = nodes_[from]->life();
    queue_.push(now_ + dial_timeout, std::move(failed));
}

void World::forget_connection(Host host, std::uint64_t connection) {
    Connection& wire = wires_[connection];
    wire.up[wire.side_of(host)] = false;
    std::erase_if(nodes_[host]->connections, [&](const auto& c) { return c.second == connection; });
}

// Tells the other end that this one is closed.
void World::hang_up(Host from, std::uint64_t connection, Time at_least) {
    const Connection& wire = wires_[connection];
    const int side = wire.side_of(from);
    const Arrivals arrivals = network_.send(wire.path[side], now_, true);
    if (arrivals.first < 0) return;
    Event event;
    event.kind = Event::Kind::closed;
    event.host = wire.host[1 - side];
    event.peer = from;
    event.tag = connection;
    queue_.push(std::max(arrivals.first, at_least), std::move(event));
}

void World::close(Host from, Host to) {
    const auto* found = find_connection(from, to);
    if (found == nullptr) return;
    const std::uint64_t connection = found->second;
    if (tracing()) trace(from, "closes its connection to n" + std::to_string(to));
    forget_connection(from, connection);
    hang_up(from, connection, 0);
}

void World::wake(Host host, Time at, TrainerTimer timer, std::uint64_t tag) {
    Event event;
    event.kind = Event::Kind::timer;
    event.timer = timer;
    event.host = host;
    event.tag = tag;
    event.life = nodes_[host]->life();
    queue_.push(at, std::move(event));
}

void World::tick(Host host, Time at) {
    Event event;
    event.kind = Event::Kind::tick;
    event.host = host;
    event.life = nodes_[host]->life();
    queue_.push(at, std::move(event));
}

void World::handle(Event& event) {
    switch (event.kind) {
        case Event::Kind::fault:
            event.host = setup_.faults[event.tag].host;
            return strike(Fault(setup_.faults[event.tag]));
        case Event::Kind::poll:
            return poll();
        default:
            break;
    }
    Node& node = *nodes_[event.host];
    if (node.frozen) {
        std::vector<Event>& waiting = frozen_[event.host];
        if (waiting.size() < max_frozen) waiting.push_back(std::move(event));
        return;
    }
    if (node.slowness > 1 && !event.queued) {
        event.queued = true;
        node.busy_until = std::max(now_, node.busy_until) + handling * node.slowness;
        const Time turn = node.busy_until;
        queue_.push(turn, std::move(event));
        return;
    }
    switch (event.kind) {
        case Event::Kind::message:
        case Event::Kind::garbled:
            return on_message(event);
        case Event::Kind::bulk:
            return on_bulk(event);
        case Event::Kind::closed:
            return on_closed(event);
        case Event::Kind::dialled:
            return on_dialled(event);
        case Event::Kind::answered:
            return on_answered(event);
        case Event::Kind::dial_failed:
            if (node.running() && node.life() == event.life &&
                std::erase(node.dials, std::pair(event.peer, event.tag)) > 0)
                node.feed(cluster::DialFailed{node_of(setup_.seed, event.peer)});
            return;
        case Event::Kind::tick:
            if (node.running() && node.life() == event.life) node.on_tick();
            return;
        case Event::Kind::timer:
            if (node.running() && node.life() == event.life) node.on_timer(event.timer, event.tag);
            return;
        case Event::Kind::fault:
        case Event::Kind::poll:
            return;
    }
}

// Nobody here knows this connection: the host says so, unless it has no power.
void World::refuse(const Event& event) {
    if (!nodes_[event.host]->silent) hang_up(event.host, event.tag, 0);
}

void World::on_message(Event& event) {
    Node& node = *nodes_[event.host];
    const Connection& wire = wires_[event.tag];
    const int side = wire.side_of(event.host);
    if (!node.running() || !wire.up[side] || wire.life[side] != node.life()) return refuse(event);
    const cluster::NodeId from = node_of(setup_.seed, event.peer);
    if (event.kind == Event::Kind::message) {
        node.feed(cluster::Received{from, std::static_pointer_cast<const cluster::Message>(event.payload)});
        return;
    }
    const auto& bytes = *std::static_pointer_cast<const std::vector<std::uint8_t>>(event.payload);
    if (auto decoded = cluster::decode_message(bytes))
        node.feed(cluster::Received{from, std::move(*decoded)});
    else
        node.feed(cluster::ReceivedGarbage{from});
}

void World::on_bulk(Event& event) {
    Node& node = *nodes_[event.host];
    const Connection& wire = wires_[event.tag];
    const int side = wire.side_of(event.host);
    if (!network_.passes(event.peer, event.host)) {
        // The stream says it again, as long as its sender believes in the connection.
        if (!wire.up[1 - side] || ++event.attempt > stream_retries) return;
        queue_.push(now_ + stream_retries_after, std::move(event));
        return;
    }
    if (!node.running() || !wire.up[side] || wire.life[side] != node.life()) return refuse(event);
    node.on_bulk(node_of(setup_.seed, event.peer), std::static_pointer_cast<const Bulk>(event.payload));
}

void World::on_closed(const Event& event) {
    Node& node = *nodes_[event.host];
    const Connection& wire = wires_[event.tag];
    const int side = wire.side_of(event.host);
    if (!node.running() || !wire.up[side] || wire.life[side] != node.life()) return;
    forget_connection(event.host, event.tag);
    const cluster::NodeId peer = node_of(setup_.seed, event.peer);
    if (tracing()) trace(event.host, "loses its connection to n" + std::to_string(event.peer));
    node.trainer().on_link_closed(peer);
    node.feed(cluster::LinkClosed{peer});
}

void World::on_dialled(Event& event) {
    Node& node = *nodes_[event.host];
    if (node.silent) return;
    Event answer;
    answer.kind = Event::Kind::answered;
    answer.host = event.peer;
    answer.peer = event.host;
    answer.tag = event.tag;
    answer.life = event.life;
    const std::uint32_t back = network_.path(event.host, event.peer);
    const cluster::NodeId caller = node_of(setup_.seed, event.peer);
    const bool calls_too =
        std::any_of(node.dials.begin(), node.dials.end(), [&](const auto& dial) { return dial.first == event.peer; });
    if (calls_too && event.host < event.peer) return;  // both call: the smaller host's call counts
    if (node.running()) {
        if (calls_too) std::erase_if(node.dials, [&](const auto& dial) { return dial.first == event.peer; });
        const std::uint64_t number = wires_.size();
        wires_.push_back({.host = {event.peer, event.host},
                          .life = {event.life, node.life()},
                          .path = {network_.path(event.peer, event.host), back},
                          .up = {false, true}});
        answer.payload = std::make_shared<const std::uint64_t>(number);
        // A caller that we believe to be connected has lost that connection.
        if (const auto* old = find_connection(event.host, event.peer)) {
            forget_connection(event.host, old->second);
            node.trainer().on_link_closed(caller);
            node.feed(cluster::LinkClosed{caller});
        }
        node.connections.emplace_back(event.peer, number);
    }
    const Arrivals arrivals = network_.send(back, now_, true);
    if (arrivals.first >= 0) queue_.push(arrivals.first, answer);
    if (!node.running()) return;
    if (tracing()) trace(event.host, "is connected to n" + std::to_string(event.peer));
    node.feed(cluster::LinkUp{caller});
    const std::uint64_t rate = network_.at(network_.path(event.peer, event.host)).rate / 1000;
    if (node.running()) node.feed(cluster::Measured{caller, static_cast<std::uint32_t>(rate)});
    if (node.running()) node.trainer().on_link_up(caller);
}

void World::on_answered(const Event& event) {
    Node& node = *nodes_[event.host];
    const bool awaited =
        node.running() && node.life() == event.life && std::erase(node.dials, std::pair(event.peer, event.tag)) > 0;
    const cluster::NodeId peer = node_of(setup_.seed, event.peer);
    if (event.payload == nullptr) {  // no process listens there
        if (awaited) node.feed(cluster::DialFailed{peer});
        return;
    }
    const std::uint64_t number = *std::static_pointer_cast<const std::uint64_t>(event.payload);
    if (!awaited) {
        if (!node.silent) hang_up(event.host, number, 0);
        return;
    }
    if (const auto* old = find_connection(event.host, event.peer)) {
        forget_connection(event.host, old->second);
        node.trainer().on_link_closed(peer);
        node.feed(cluster::LinkClosed{peer});
    }
    wires_[number].up[0] = true;
    if (tracing()) trace(event.host, "is connected to n" + std::to_string(event.peer));
    node.connections.emplace_back(event.peer, number);
    node.feed(cluster::LinkUp{peer});
    const std::uint64_t rate = network_.at(network_.path(event.peer, event.host)).rate / 1000;
    if (node.running()) node.feed(cluster::Measured{peer, static_cast<std::uint32_t>(rate)});
    if (node.running()) node.trainer().on_link_up(peer);
}

}  // namespace chaos::sim
