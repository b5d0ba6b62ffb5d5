// The inside of a link, and of Links; only link.cpp and links.cpp include it.
#pragma once

#include "net/allowance.h"
#include "net/limited_lines.h"
#include "net/links.h"
#include "net/pacing.h"

#include "proto/link.pb.h"

#include <boost/asio/steady_timer.hpp>

#include <array>
#include <deque>
#include <optional>

namespace chaos::net {

inline constexpr std::size_t most_unsent_bytes = 256 << 10;  // of a bulk connection, in the system

using StreamPtr = std::shared_ptr<Stream>;

struct BulkFrame {
    BulkHead head;
    std::span<const std::byte> payload;
    std::shared_ptr<const void> owner;
};

using BulkQueues = std::array<std::deque<BulkFrame>, bulk_kinds>;  // by kind

// One of the bulk connections of a link; or its place, while there is none.
//
//   waiting, by kind ──► sent, not known to have arrived ──► forgotten
struct BulkPlace {
    explicit BulkPlace(asio::io_context& loop) : wake(loop), may_read(loop) {}

    StreamPtr stream;
    BulkQueues waiting;  // for this one; besides, there is what waits for any
    bool writing = false;
    bool idle = false;  // as the link's
    std::deque<BulkFrame> unconfirmed;
    std::uint64_t confirmed = 0;                   // frames that have arrived at the other end
    std::uint64_t received = 0;                    // frames that have arrived here
    std::uint64_t told = 0;                        // ... and that the other end was told of
    std::uint64_t received_bytes = 0;              // since then
    std::uint64_t delivered_bytes = 0;             // by this connection
    double bytes_per_s = 0.0;                      // ... lately
    std::uint64_t limit = no_limit;                // bytes per second, as the system was told
    std::size_t unsent_bytes = most_unsent_bytes;  // ... and how much it takes ahead
    asio::steady_timer wake;                       // the writer sleeps on it
    asio::steady_timer may_read;                   // the reader, when its receiver is not ready
    // Since when something was due from the other end, or a connection to it, and did not come.
    std::optional<Clock::time_point> unheard_since;
    std::optional<Clock::time_point> lacking_since;
};

struct LinksState;

struct Link : std::enable_shared_from_this<Link> {
    Link(LinksState& state, NodeId peer);

    const std::shared_ptr<LinksState> owner;  // coroutines of this link may outlive Links
    LinksState& state;
    NodeId peer;
    std::uint64_t instance = 0;  // the peer's process
    bool dialled = false;        // by us
    std::string address;         // where we dialled
    StreamPtr control;
    std::deque<std::vector<std::byte>> outgoing;  // control frames
    std::size_t outgoing_bytes = 0;
    asio::steady_timer wake;  // the writer of control frames sleeps on it
    asio::steady_timer closing_limit;
    asio::steady_timer watching;  // watch_places() sleeps on it
    bool idle = false;            // nothing is being written, nor waits: what is short may leave at once
    std::vector<std::unique_ptr<BulkPlace>> places;  // the last is for results alone
    BulkQueues waiting;                              // for the first place that is free
    // What state may send before gradients do: grows with what they send.
    std::uint64_t state_credit_bytes = 0;
    Pacer pacer;
    std::uint64_t paced = no_limit;  // what the pacer allows all places together
    bool pacing = false;             // keep_pace() runs
    bool closing = false;            // on purpose, once everything has left
    bool failing = false;            // it ends as soon as whoever is at work now is done
    bool ended = false;
    std::size_t unconfirmed_bytes = 0;  // of all places
    LinkFigures figures;
    RateMeter meter;                                         // of what comes over all places
    Allowance allowance;                                     // of control messages
    std::optional<Allowance::Clock::time_point> loud_since;  // it has sent more than that all the while
    std::uint64_t ping_number = 0;
    std::chrono::steady_clock::time_point pinged_at;

    void start();
    void send(const wire::Control& message);
    void send_cluster(std::span<const std::uint8_t> message);
    void queue(std::vector<std::byte> frame);
    void queue_bulk(BulkFrame frame, std::uint32_t lane);
    std::optional<BulkFrame> next_frame(BulkPlace& place);
    bool send_now(BulkPlace& place, BulkFrame& frame);
    void sent(BulkPlace& place, BulkFrame frame);
    void confirm(BulkPlace& place, std::uint64_t frames);
    // Whether bulk data waits, or is not known to have arrived.
    [[nodiscard]] bool has_bulk() const;
    [[nodiscard]] bool busy(const BulkPlace& place) const;
    [[nodiscard]] std::size_t busy_places() const;
    std::optional<Pacer::Sample> ask_connections(std::chrono::nanoseconds elapsed);
    void set_limits(std::uint64_t all);
    void lose(BulkPlace& place, const StreamPtr& stream);
    [[nodiscard]] bool needs_connection(const BulkPlace& place) const;
    static void keep_unsent(BulkPlace& place, std::size_t bytes);
    // Whether that many frames can have arrived at the other end.
    [[nodiscard]] bool plausible(std::uint32_t place, std::uint64_t frames_arrived) const;
    void attach(std::uint32_t place, const StreamPtr& stream, std::uint64_t frames_arrived);
    void end(const std::string& why);
    void end_soon(const std::string& why);

    awaitable<void> read_control(StreamPtr stream);
    awaitable<bool> hold_back(Allowance::Clock::duration pause);
    awaitable<void> write_control(StreamPtr stream);
    awaitable<void> read_bulk(std::uint32_t place, StreamPtr stream);
    awaitable<void> write_bulk(std::uint32_t place, StreamPtr stream);
    awaitable<void> keep_bulk(std::uint32_t place);
    awaitable<void> keep_pace();
    awaitable<void> watch_places();
    awaitable<Result<void>> take_payload(BulkPlace& at, Stream& stream, const BulkHead& head);
    Result<double> handle(std::span<const std::byte> frame);
    void bulk_arrived(std::uint32_t place, std::size_t bytes);
    void confirm_arrived(std::uint32_t place);
};

// Ends what is awaited on a stream when it takes too long.
class Watchdog {
public:
    Watchdog(asio::io_context& loop, const StreamPtr& stream, std::chrono::milliseconds limit);
    // Why the stream failed: what it says itself, or that it was closed here.
    [[nodiscard]] Error cause_of(const Error& failure) const;

private:
    struct Guarded {
        StreamPtr stream;
        bool expired = false;
    };
    std::shared_ptr<Guarded> guarded_;  // gone with this: what fires too late finds nothing
    asio::steady_timer timer_;
};

[[nodiscard]] std::vector<std::byte> frame_of(const wire::Control& message);

// Somebody who has not said yet who it is.
struct Stranger {
    StreamPtr stream;
    tcp::endpoint from;
};

struct LinksState : std::enable_shared_from_this<LinksState> {
    LinksState(asio::io_context& loop, const SecretKey& key, const Credential& credential, const LinkOptions& options,
               LinkEvents& events, BulkReceiver& receiver);

    asio::io_context& loop;
    Tls tls;
    LinkOptions options;
    LinkEvents& events;
    BulkReceiver& receiver;
    NodeId self;
    std::uint64_t instance = 0;
    std::map<NodeId, std::shared_ptr<Link>> links;
    std::set<std::shared_ptr<Link>> closing;  // on purpose, once what was sent before has left
    std::vector<std::unique_ptr<tcp::acceptor>> acceptors;
    std::vector<Stranger> strangers;  // the oldest first
    std::map<NodeId, int> dialling;
    // The other end closed the connection, but ours, on its way, is the one that stays: the link is not gone yet.
    std::set<NodeId> orphans;
    LinkCounters counters;
    Allowance handshakes;
    LimitedLines lines;  // of those turned away
    bool stopped = false;

    [[nodiscard]] const Tls* encryption() const { return options.in_the_clear ? nullptr : &tls; }
    [[nodiscard]] wire::Control hello(wire::Hello::Purpose purpose, std::uint32_t place, std::uint64_t frames) const;

    struct Greeted {
        NodeId peer;
        wire::Hello hello;
    };
    // These begin when the loop runs, which may be after Links is gone: what they need then is given to them.
    awaitable<void> accept(std::shared_ptr<LinksState> keep, tcp::acceptor& acceptor);
    awaitable<void> greet(std::shared_ptr<LinksState> keep, tcp::socket socket);
    awaitable<void> welcome(StreamPtr stream, std::string from);
    using Cause = std::uint64_t LinkCounters::*;
    // On a fresh connection, before it is a link's. Of a failure, also the cause.
    awaitable<Result<wire::Control>> read_message(Stream& stream, std::size_t limit, Cause& cause);
    awaitable<Result<Greeted>> greet(Stream& stream, Cause& cause);
    awaitable<Result<StreamPtr>> connect(const std::string& address);
    awaitable<Result<Greeted>> introduce(Stream& stream, const wire::Control& hello, NodeId expected);
    awaitable<void> dial(std::shared_ptr<LinksState> keep, NodeId peer, std::string address);
    // `who`: who is there, where that became known.
    awaitable<Result<void>> dial_control(NodeId peer, const std::string& address, NodeId& who);
    awaitable<Result<void>> install(Greeted greeted, StreamPtr stream, bool dialled, std::string address);
    awaitable<bool> answers(std::shared_ptr<Link> link);
    void make_room();
    void turn_away(const std::string& who, const std::string& why, Cause cause);
    void prepare_bulk(Stream& stream) const;
    void share_limits();
};

}  // namespace chaos::net
