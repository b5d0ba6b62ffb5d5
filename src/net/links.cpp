// Links: listening, dialling, greeting, and which of two connections stays.
#include "net/links.h"

#include "base/words.h"
#include "net/address.h"
#include "net/bulk_socket.h"
#include "net/link.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <openssl/rand.h>

#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>

namespace chaos::net {
namespace {

constexpr std::size_t max_greeting_bytes = 4096;  // of strangers, little is read

wire::Control refusal(const std::string& why) {
    wire::Control message;
    message.set_refusal(why);
    return message;
}

std::uint64_t random_number() {
    std::uint64_t number = 0;
    CHAOS_ASSERT(RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof number) == 1);
    return number;
}

constexpr const char* too_many_strangers = "too many connections have not said who they are";

// Where a connection comes from: of IPv6, whoever has an address has many that begin alike.
std::string where(const tcp::endpoint& endpoint) {
    if (!endpoint.address().is_v6()) return endpoint.address().to_string();
    auto bytes = endpoint.address().to_v6().to_bytes();
    std::fill(bytes.begin() + bytes.size() / 2, bytes.end(), std::uint8_t{0});
    return asio::ip::address_v6(bytes).to_string();
}

}  // namespace

std::string to_text(const tcp::endpoint& endpoint) {
    const std::string host = endpoint.address().to_string();
    return (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(endpoint.port());
}

Watchdog::Watchdog(asio::io_context& loop, const StreamPtr& stream, std::chrono::milliseconds limit)
    : guarded_(std::make_shared<Guarded>(Guarded{.stream = stream})), timer_(loop, limit) {
    timer_.async_wait([weak = std::weak_ptr(guarded_)](boost::system::error_code cancelled) {
        const std::shared_ptr<Guarded> guarded = weak.lock();
        if (cancelled || !guarded) return;
        guarded->expired = true;
        guarded->stream->close();
    });
}

Error Watchdog::cause_of(const Error& failure) const {
    return guarded_->expired ? Error{"whoever is there does not answer in time"} : failure;
}

awaitable<Result<wire::Control>> LinksState::read_message(Stream& stream, std::size_t limit, Cause& cause) {
    std::array<std::byte, control_head_bytes> head{};
    if (const Result<void> read = co_await stream.read(head); !read) co_return read.error();
    cause = &LinkCounters::malformed;
    const Result<std::size_t> size = decode_control_size(head);
    if (!size) co_return size.error();
    if (*size > limit) co_return Error{"its greeting is too long"};
    std::vector<std::byte> content(*size);
    if (const Result<void> read = co_await stream.read(content); !read) co_return read.error();
    wire::Control message;
    if (!message.ParseFromArray(content.data(), static_cast<int>(content.size())))
        co_return Error{"it sent what is no message"};
    co_return message;
}

LinksState::LinksState(asio::io_context& io, const SecretKey& key, const Credential& credential, const LinkOptions& how,
                       LinkEvents& who, BulkReceiver& bulk)
    : loop(io),
      tls(key, credential),
      options(how),
      events(who),
      receiver(bulk),
      self(how.in_the_clear ? how.clear_id : node_id(key.public_key())),
      instance(random_number()),
      handshakes(how.handshakes_per_s, how.handshakes_at_once, Allowance::Clock::now()),
      lines(Allowance::Clock::now()) {}

wire::Control LinksState::hello(wire::Hello::Purpose purpose, std::uint32_t place, std::uint64_t frames) const {
    wire::Control message;
    wire::Hello* hello = message.mutable_hello();
    hello->set_version(link_version);
    hello->set_purpose(purpose);
    hello->set_instance(instance);
    hello->set_place(place);
    hello->set_frames(frames);
    if (options.in_the_clear) {
        hello->set_node_high(self.high);
        hello->set_node_low(self.low);
    }
    return message;
}

// A short queue in the system, and a congestion control that keeps the bottleneck's queue short too, so that control
// messages of this link and of others get through. Where the system does not have it, its default has to do.
void LinksState::prepare_bulk(Stream& stream) const {
    const int socket = stream.socket().native_handle();
    set_unsent_bytes(socket, most_unsent_bytes);
    // Within one machine, what keeps queues short would cost a fifth of the time.
    if (!stream.within_machine()) set_congestion_control(socket, options.bulk_congestion_control);
}

awaitable<void> LinksState::accept(std::shared_ptr<LinksState>, tcp::acceptor& acceptor) {
    while (!stopped) {
        auto [problem, socket] = co_await acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
        if (stopped || problem == asio::error::operation_aborted) co_return;
        if (problem) {
            // Out of descriptors, mostly: those at work go on, and newcomers try again.
            asio::steady_timer pause(loop, std::chrono::milliseconds(100));
            co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
            continue;
        }
        co_await greet(shared_from_this(), std::move(socket));
    }
}

awaitable<void> LinksState::greet(std::shared_ptr<LinksState>, tcp::socket socket) {
    boost::system::error_code gone;
    const tcp::endpoint from = socket.remote_endpoint(gone);
    if (gone || stopped) co_return;
    // Where many come at once, too, few are waited for.
    const bool crowded = strangers.size() >= options.max_strangers;
    if (crowded && !handshakes.take_if_left(1, Allowance::Clock::now())) {
        turn_away(to_text(from), too_many_strangers, &LinkCounters::too_many);
        co_return;
    }
    if (crowded) make_room();
    auto stream = std::make_shared<Stream>(std::move(socket), encryption(), false);
    strangers.push_back({.stream = stream, .from = from});
    const auto pause = crowded ? Allowance::Clock::duration{} : handshakes.take(1, Allowance::Clock::now());
    if (pause.count() > 0) {
        ++counters.handshakes_delayed;
        asio::steady_timer timer(loop, pause);
        co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
        if (stopped) co_return;
    }
    asio::co_spawn(loop, welcome(std::move(stream), to_text(from)), asio::detached);
}

// The oldest of those that came from where most came from has to go: whoever says who it is does so at once, and
// whoever keeps many waiting only gets into its own way.
void LinksState::make_room() {
    std::map<std::string, std::size_t> crowds;
    for (const Stranger& each : strangers) ++crowds[where(each.from)];
    // The first of those that are alike.
    const auto oldest =
        std::ranges::max_element(strangers, {}, [&](const Stranger& each) { return crowds[where(each.from)]; });
    turn_away(to_text(oldest->from), too_many_strangers, &LinkCounters::too_many);
    oldest->stream->close();
    strangers.erase(oldest);
}

void LinksState::turn_away(const std::string& who, const std::string& why, Cause cause) {
    ++counters.turned_away;
    ++(counters.*cause);
    if (const std::optional<std::string> line = lines.next(why, Allowance::Clock::now()))
        events.turned_away(who, *line);
}

// The handshake and the other's Hello.
awaitable<Result<LinksState::Greeted>> LinksState::greet(Stream& stream, Cause& cause) {
    cause = &LinkCounters::handshake_failed;
    const Result<Proven> proven = co_await stream.handshake();
    if (!proven) co_return proven.error();
    const Result<wire::Control> message = co_await read_message(stream, max_greeting_bytes, cause);
    if (!message) co_return message.error();
    cause = &LinkCounters::refused;
    if (message->has_refusal()) co_return Error{"it refuses: " + printable(message->refusal())};
    if (!message->has_hello()) co_return Error{"it does not greet"};
    Greeted greeted{.peer = proven->node, .hello = message->hello()};
    if (options.in_the_clear) greeted.peer = {.high = greeted.hello.node_high(), .low = greeted.hello.node_low()};
    if (greeted.hello.version() != link_version) co_return Error{"it speaks another version of the protocol"};
    if (greeted.peer == self) co_return Error{"it has the key of this node itself"};
    if (stopped) co_return Error{"this node stops"};
    if (!options.in_the_clear)
        if (const Result<void> admitted = events.admit(*proven); !admitted) co_return admitted.error();
    co_return greeted;
}

awaitable<void> LinksState::welcome(StreamPtr stream, std::string from) {
    const std::shared_ptr<LinksState> keep = shared_from_this();
    const Watchdog watchdog(loop, stream, options.handshake_limit);
    Cause cause = nullptr;
    Result<Greeted> greeted = co_await greet(*stream, cause);
    const std::size_t left = std::erase_if(strangers, [&](const Stranger& each) { return each.stream == stream; });
    if (stopped || left == 0) co_return stream->close();  // it had to make room, if it is not there
    std::string why = greeted ? "" : watchdog.cause_of(greeted.error()).message;
    if (greeted && greeted->hello.purpose() == wire::Hello::BULK) {
        const auto link = links.find(greeted->peer);
        const std::uint32_t place = greeted->hello.place();
        if (link == links.end() || link->second->instance != greeted->hello.instance() ||
            place >= link->second->places.size()) {
            why = "there is no link that this connection belongs to";
        } else if (!link->second->plausible(place, greeted->hello.frames())) {
            why = "it says that more has arrived than was sent";
            cause = &LinkCounters::malformed;
        } else {
            const std::shared_ptr<Link> owner = link->second;
            const auto reply = frame_of(hello(wire::Hello::BULK, place, owner->places[place]->received));
            const Result<void> sent = co_await stream->write(reply, {});
            // What it said may be outdated by now.
            if (!sent || owner->ended || !owner->plausible(place, greeted->hello.frames())) co_return stream->close();
            co_return owner->attach(place, stream, greeted->hello.frames());
        }
    } else if (greeted) {
        const Result<void> installed = co_await install(*greeted, stream, false, "");
        if (installed) co_return;
        why = installed.error().message;
    }
    if (stopped) co_return stream->close();
    turn_away(greeted ? cluster::brief(greeted->peer) + " at " + from : from, why, cause);
    const std::vector<std::byte> answer = frame_of(refusal(why));
    (void)co_await stream->write(answer, {});  // it may be gone already
    stream->close();
}

awaitable<bool> LinksState::answers(std::shared_ptr<Link> link) {
    constexpr std::chrono::milliseconds patience{1000};
    const std::uint64_t before = link->figures.control_received;
    wire::Control message;
    message.mutable_ping();
    link->send(message);
    asio::steady_timer tick(loop);
    for (std::chrono::milliseconds waited{0}; waited < patience && !link->ended;
         waited += std::chrono::milliseconds(20)) {
        if (link->figures.control_received > before) co_return true;
        tick.expires_after(std::chrono::milliseconds(20));
        co_await tick.async_wait(asio::as_tuple(asio::use_awaitable));
    }
    co_return false;
}

// A control connection stands. Is it our link to that node?
awaitable<Result<void>> LinksState::install(Greeted greeted, StreamPtr stream, bool dialled, std::string address) {
    std::shared_ptr<Link> replaced;
    if (const auto known = links.find(greeted.peer); known != links.end()) {
        const std::shared_ptr<Link> old = known->second;
        if (old->instance == greeted.hello.instance()) {
            // Both dialled at once: both ends keep the one that the smaller id dialled.
            const bool ours_stays = self < greeted.peer;
            if (dialled != ours_stays) co_return Error{"there is a link already"};
            replaced = old;
        } else if (co_await answers(old)) {
            co_return Error{"this key is in use by another process, which is connected"};
        } else {
            old->end("its process is gone");
        }
    }
    if (!dialled) {
        const std::vector<std::byte> answer = frame_of(hello(wire::Hello::CONTROL, 0, 0));
        const Result<void> sent = co_await stream->write(answer, {});
        if (!sent) co_return sent.error();
    }
    if (replaced && replaced->ended) replaced.reset();  // while we waited
    if (stopped || (links.contains(greeted.peer) && links[greeted.peer] != replaced))
        co_return Error{"there is a link already"};
    auto link = std::make_shared<Link>(*this, greeted.peer);
    link->instance = greeted.hello.instance();
    link->dialled = dialled;
    link->address = std::move(address);
    link->control = std::move(stream);
    links[greeted.peer] = link;
    // Nobody needs to know that one connection took the place of another, unless bulk data was lost with it.
    const bool lost_bulk = replaced != nullptr && replaced->has_bulk();
    const bool known = (replaced != nullptr && !lost_bulk) || orphans.erase(greeted.peer) > 0;
    if (replaced) {
        link->outgoing = std::move(replaced->outgoing);
        link->outgoing_bytes = replaced->outgoing_bytes;
        replaced->end("replaced");
    }
    link->start();
    if (lost_bulk) events.link_closed(greeted.peer, "another connection took its place");
    if (!known && !link->ended) events.link_up(greeted.peer);
    co_return Result<void>{};
}

awaitable<Result<StreamPtr>> LinksState::connect(const std::string& text) {
    const Result<Address> address = address_from_text(text);
    if (!address) co_return address.error();
    tcp::resolver resolver(loop);
    // Named, because g++ 12 destroys some temporaries of a co_await expression twice.
    const std::string host = address->host.empty() ? "localhost" : address->host;
    const auto [unknown, endpoints] =
        co_await resolver.async_resolve(host, address->port, asio::as_tuple(asio::use_awaitable));
    if (unknown) co_return Error{"cannot resolve " + address->host + ": " + unknown.message()};
    tcp::socket socket(loop);
    asio::steady_timer limit(loop, options.handshake_limit);
    const auto waiting = std::make_shared<bool>(true);  // the timer may have expired when it is cancelled
    limit.async_wait([&socket, waiting](boost::system::error_code cancelled) {
        boost::system::error_code ignored;
        if (!cancelled && *waiting) (void)socket.close(ignored);
    });
    const auto [problem, endpoint] =
        co_await asio::async_connect(socket, endpoints, asio::as_tuple(asio::use_awaitable));
    *waiting = false;
    limit.cancel();
    const bool late = !problem || problem == asio::error::operation_aborted;  // nothing else closes the socket
    if (problem || !socket.is_open())
        co_return Error{"cannot connect to " + text + ": " + (late ? "it takes too long" : problem.message())};
    co_return std::make_shared<Stream>(std::move(socket), encryption(), true);
}

// The dialling end's part of a greeting.
awaitable<Result<LinksState::Greeted>> LinksState::introduce(Stream& stream, const wire::Control& hello,
                                                             NodeId expected) {
    const Result<Proven> proven = co_await stream.handshake();
    if (!proven) co_return proven.error();
    const auto another = [](NodeId who) { return Error{"another node answers there: " + cluster::brief(who)}; };
    // Before it hears of us: it may be linked with us, and would take this for its link's other connection.
    if (!options.in_the_clear && expected != NodeId{} && proven->node != expected) co_return another(proven->node);
    const std::vector<std::byte> first = frame_of(hello);
    if (const Result<void> sent = co_await stream.write(first, {}); !sent) co_return sent.error();
    Cause cause = nullptr;
    Result<Greeted> greeted = co_await greet(stream, cause);
    if (greeted && expected != NodeId{} && greeted->peer != expected) co_return another(greeted->peer);
    co_return greeted;
}

// A control connection to that node, made a link of.
awaitable<Result<void>> LinksState::dial_control(NodeId peer, const std::string& address, NodeId& who) {
    const Result<StreamPtr> stream = co_await connect(address);
    if (!stream) co_return stream.error();
    const Watchdog watchdog(loop, *stream, options.handshake_limit);
    // It has proven who it is even if it refuses: where there is a link already, it does.
    const Result<Proven> proven = co_await (*stream)->handshake();
    if (!proven) co_return watchdog.cause_of(proven.error());
    who = proven->node;
    const wire::Control ours = hello(wire::Hello::CONTROL, 0, 0);
    const Result<Greeted> greeted = co_await introduce(**stream, ours, peer);
    if (greeted) who = greeted->peer;
    Result<void> done = greeted ? Result<void>{} : Result<void>{watchdog.cause_of(greeted.error())};
    if (greeted) done = co_await install(*greeted, *stream, true, address);
    if (!done) (*stream)->close();
    co_return done;
}

awaitable<void> LinksState::dial(std::shared_ptr<LinksState>, NodeId peer, std::string address) {
    ++dialling[peer];
    NodeId who;
    const Result<void> done = co_await dial_control(peer, address, who);
    if (--dialling[peer] == 0) dialling.erase(peer);
    if (stopped) co_return;
    if (peer == NodeId{} && links.contains(who)) co_return events.answered(who, address);
    if (peer == NodeId{}) co_return events.dial_failed(peer, address, done ? "the link ended" : done.error().message);
    if (done) co_return;
    if (orphans.erase(peer) > 0) co_return events.link_closed(peer, done.error().message);
    if (!links.contains(peer)) events.dial_failed(peer, address, done.error().message);
}

Links::Links(asio::io_context& loop, const SecretKey& key, const Credential& credential, const LinkOptions& options,
             LinkEvents& events, BulkReceiver& receiver)
    : state_(std::make_shared<LinksState>(loop, key, credential, options, events, receiver)) {
    // OpenSSL writes to sockets as to files: a connection that the other end closed would end the process.
    std::signal(SIGPIPE, SIG_IGN);
}

// An acceptor that cannot be closed would be a broken invariant.
Links::~Links() {  // NOLINT(bugprone-exception-escape)
    stop();
}

Result<tcp::endpoint> Links::listen(const std::string& text) {
    const Result<Address> address = address_from_text(text);
    if (!address) return address.error();
    boost::system::error_code problem;
    tcp::resolver resolver(state_->loop);
    const auto found = resolver.resolve(address->host.empty() ? "localhost" : address->host, address->port,
                                        tcp::resolver::passive, problem);
    if (problem) return Error{"cannot resolve " + address->host + ": " + problem.message()};
    auto acceptor = std::make_unique<tcp::acceptor>(state_->loop);
    const tcp::endpoint endpoint = found.begin()->endpoint();
    (void)acceptor->open(endpoint.protocol(), problem);
    if (!problem) (void)acceptor->set_option(tcp::acceptor::reuse_address(true), problem);
    if (!problem) (void)acceptor->bind(endpoint, problem);
    if (!problem) (void)acceptor->listen(tcp::acceptor::max_listen_connections, problem);
    if (problem) return Error{"cannot listen on " + text + ": " + problem.message()};
    const tcp::endpoint where = acceptor->local_endpoint();
    state_->acceptors.push_back(std::move(acceptor));
    asio::co_spawn(state_->loop, state_->accept(state_, *state_->acceptors.back()), asio::detached);
    return where;
}

void Links::adopt(int descriptor) {
    boost::system::error_code problem;
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    const bool known = ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size) == 0;
    tcp::socket socket(state_->loop);
    (void)socket.assign(known && name.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), descriptor, problem);
    if (problem) {
        ::close(descriptor);
        return;
    }
    asio::co_spawn(state_->loop, state_->greet(state_, std::move(socket)), asio::detached);
}

void Links::dial(NodeId peer, const std::string& address) {
    asio::co_spawn(state_->loop, state_->dial(state_, peer, address), asio::detached);
}

bool Links::send(NodeId to, std::span<const std::uint8_t> message) {
    const auto link = state_->links.find(to);
    if (link == state_->links.end()) return false;
    link->second->send_cluster(message);
    return true;
}

bool Links::send_work(NodeId to, std::span<const std::uint8_t> message) {
    const auto link = state_->links.find(to);
    if (link == state_->links.end()) return false;
    wire::Control control;
    control.set_work(message.data(), message.size());
    if (control.ByteSizeLong() > max_control_bytes) return false;
    link->second->send(control);
    return true;
}

bool Links::send_bulk(NodeId to, const BulkHead& head, std::span<const std::byte> payload, std::uint32_t lane,
                      std::shared_ptr<const void> owner) {
    CHAOS_ASSERT(head.bytes == payload.size() && payload.size() <= max_bulk_bytes);
    const auto link = state_->links.find(to);
    if (link == state_->links.end()) return false;
    link->second->queue_bulk({.head = head, .payload = payload, .owner = std::move(owner)}, lane);
    return true;
}

void Links::cancel_gradients(std::uint64_t first, std::uint64_t second) {
    const auto drop = [&](BulkQueues& waiting) {
        std::erase_if(waiting[static_cast<std::size_t>(BulkKind::gradients)],
                      [&](const BulkFrame& frame) { return frame.head.first == first && frame.head.second == second; });
    };
    for (const auto& [peer, link] : state_->links) {
        drop(link->waiting);
        for (const auto& place : link->places) drop(place->waiting);
    }
}

void Links::cancel_results(NodeId to, std::uint64_t first) {
    const auto link = state_->links.find(to);
    if (link == state_->links.end()) return;
    std::erase_if(link->second->places.back()->waiting[static_cast<std::size_t>(BulkKind::results)],
                  [&](const BulkFrame& frame) { return frame.head.first == first; });
}

void Links::resume(NodeId from) {
    const auto link = state_->links.find(from);
    if (link == state_->links.end()) return;
    for (const auto& place : link->second->places) place->may_read.cancel();
}

bool Links::ping(NodeId peer) {
    const auto link = state_->links.find(peer);
    if (link == state_->links.end()) return false;
    link->second->pinged_at = std::chrono::steady_clock::now();
    link->second->figures.round_trip = std::chrono::nanoseconds(0);
    wire::Control message;
    message.mutable_ping()->set_number(++link->second->ping_number);
    link->second->send(message);
    return true;
}

void Links::close(NodeId peer) {
    const auto link = state_->links.find(peer);
    if (link == state_->links.end()) return;
    const std::shared_ptr<Link> closing = link->second;
    state_->links.erase(link);
    state_->orphans.erase(peer);
    state_->closing.insert(closing);
    closing->closing = true;
    closing->wake.cancel();
    // Whoever does not read cannot hold it open.
    closing->closing_limit.expires_after(state_->options.handshake_limit);
    closing->closing_limit.async_wait([closing](boost::system::error_code cancelled) {
        if (!cancelled) closing->end("closed");
    });
}

void Links::stop() {
    state_->stopped = true;
    for (const auto& acceptor : state_->acceptors) acceptor->close();
    for (const Stranger& stranger : state_->strangers) stranger.stream->close();
    while (!state_->links.empty()) state_->links.begin()->second->end("this node stops");
    while (!state_->closing.empty()) {
        const std::shared_ptr<Link> link = *state_->closing.begin();
        link->end("this node stops");
    }
}

bool Links::linked(NodeId peer) const {
    return state_->links.contains(peer);
}

const LinkCounters& Links::counters() const {
    return state_->counters;
}

std::vector<NodeId> Links::peers() const {
    std::vector<NodeId> all;
    for (const auto& [peer, link] : state_->links) all.push_back(peer);
    return all;
}

LinkFigures Links::figures(NodeId peer) const {
    const auto found = state_->links.find(peer);
    if (found == state_->links.end()) return {};
    const Link& link = *found->second;
    LinkFigures figures = link.figures;
    figures.receive_bytes_per_s = link.meter.bytes_per_s();
    const auto count = [&](Stream& stream) {
        const Segments more = segments_of(stream.socket().native_handle());
        figures.segments.sent += more.sent;
        figures.segments.again += more.again;
    };
    count(*link.control);
    for (const auto& place : link.places)
        if (place->stream) count(*place->stream);
    if (const StreamPtr& results = link.places.back()->stream)
        if (const auto report = report_of(results->socket().native_handle()))
            figures.results_coming = report->received_bytes;
    return figures;
}

}  // namespace chaos::net
