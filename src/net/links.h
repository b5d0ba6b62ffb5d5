// Links: the connections of one node to others, all on one I/O loop. A link is one control connection, for messages
// that are few, small and urgent, and several bulk connections, for gradients and state: one TCP stream cannot fill a
// long fat pipe, and what is urgent never waits behind what is large.
//
//            ┌──────────── control: Hello, cluster messages, ping ───────────┐
//   node A ──┤──────────── bulk 0 ... n - 1: gradients before state ─────────├── node B
//            └──────────── bulk n: results for who is behind ────────────────┘
//
// Either end may dial; one that can be dialled is enough. If both dial at once, the connection dialled by the smaller
// id stays. The end that dialled the control connection dials the bulk ones too, and dials them again, ever later, if
// they break. When the control connection ends, the link ends; so it does when bulk data waits for long for a
// connection that does not come back.
//
// Bulk data is paced (pacing.h), so that urgent messages do not wait in the queue of a slow line; a node may also be
// told how much it may send in all. (Within one machine there is no line to be careful of, and nothing is paced unless
// the node is told to.) Gradients leave before state, which keeps a share of its own.
//
// Everything is called, and calls back, in the loop's thread. Nothing here grows without a limit, whatever a peer does:
// strangers are few and have little time, frames and queues are bounded, and a peer that does not read is dropped. Nor
// can one peer take the loop from the others: connections take turns, newcomers are greeted at a limited rate, and
// whoever sends more control messages than anybody needs waits, and is dropped in the end. All of that is counted.
#pragma once

#include "net/frame.h"
#include "net/monitor.h"
#include "net/stream.h"

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace chaos::net {

using cluster::NodeId;

// Nodes of different versions refuse each other when they greet.
inline constexpr std::uint32_t link_version = 2;

// As address.h reads it.
[[nodiscard]] std::string to_text(const tcp::endpoint& endpoint);

struct LinkOptions {
    std::uint32_t bulk_connections = 2;
    std::chrono::milliseconds handshake_limit{5000};
    std::size_t max_strangers = 64;            // connections that have not said who they are; more drive out others
    std::size_t max_waiting_bytes = 32 << 20;  // of control messages to one peer; beyond that it is dropped
    // Bulk data that one peer was sent and did not confirm; beyond that it is dropped. An honest one confirms every few
    // MiB: more than that, and what a long fat pipe holds both ways, is never on its way.
    std::size_t max_unconfirmed_bytes = std::size_t{1} << 30;
    // A handshake costs the node half a millisecond of computing. Whoever comes too soon waits at the door.
    double handshakes_per_s = 100;
    double handshakes_at_once = 200;
    // Control messages from one peer; a long one counts for several, one for each 4 KiB, and what only confirms next to
    // nothing. Beyond that it is not read for a while, and if it goes on like that, dropped.
    double control_per_s = 2000;
    double control_at_once = 16384;
    std::chrono::milliseconds longest_loud{10'000};
    std::string bulk_congestion_control = "bbr";  // keeps the queues of a bottleneck short; else what the system has
    std::uint64_t max_send_bytes_per_s = 0;       // of bulk data over all links, for who pays by the byte; 0: no limit
    // Of what a link sends while gradients wait without end: what a joiner can count on.
    std::uint32_t state_share_percent = 10;
    // A bulk connection that is not answered for so long is dialled anew; a link whose bulk data waits for so long for
    // a connection ends.
    std::chrono::milliseconds longest_without_bulk{15'000};
    bool in_the_clear = false;  // no TLS: tests and benches only
    NodeId clear_id = {};       // who we say we are, in the clear
};

// What happens to links.
class LinkEvents {
public:
    virtual ~LinkEvents() = default;
    // May this node have a link with us? An error is told to it, in words.
    virtual Result<void> admit(const Proven& peer) = 0;
    virtual void link_up(NodeId peer) = 0;
    virtual void link_closed(NodeId peer, const std::string& why) = 0;
    virtual void dial_failed(NodeId peer, const std::string& address, const std::string& why) = 0;
    // Who answers where a zero id was dialled: there is a link with it, this one or one that stood before.
    virtual void answered(NodeId peer, const std::string& address) = 0;
    virtual void received(NodeId from, std::span<const std::uint8_t> message) = 0;       // of the cluster's protocol
    virtual void received_work(NodeId from, std::span<const std::uint8_t> message) = 0;  // of those who work
    // Somebody was turned away; one line for the log. Where there are too many of them, some have none, and `why` tells
    // how many.
    virtual void turned_away(const std::string& who, const std::string& why) = 0;
};

// Whoever takes bulk data.
class BulkReceiver {
public:
    struct Place {
        enum class Kind : std::uint8_t {
            here,  // write the payload to `at`, which stays valid until arrived() or dropped()
            skip,  // nobody wants it
            wait,  // not now: nothing more is read from that connection until Links::resume
        };
        Kind kind = Kind::skip;
        std::span<std::byte> at = {};  // exactly as long as the payload
    };
    virtual ~BulkReceiver() = default;
    virtual Place place_for(NodeId from, const BulkHead& head) = 0;
    virtual void arrived(NodeId from, const BulkHead& head) = 0;
    virtual void dropped(NodeId from, const BulkHead& head) = 0;  // the connection ended in the middle of it
};

// For send_bulk: the first connection that is free takes the frame.
inline constexpr std::uint32_t any_lane = UINT32_MAX;

struct LinkFigures {
    std::uint64_t bulk_sent_bytes = 0;
    std::uint64_t bulk_received_bytes = 0;
    std::uint64_t results_coming =
        0;  // bytes that the connection for results took in since it stands; parts of frames too
    std::uint64_t control_sent = 0;
    std::uint64_t control_received = 0;
    std::chrono::nanoseconds round_trip{0};  // of the last answered ping; 0: none
    RoundTrips round_trips;                  // of all answered ones
    std::uint64_t receive_bytes_per_s = 0;   // what comes when it comes without pause; 0: not known
    Segments segments;                       // of all connections that stand: how many were lost and sent again
};

// Trouble with others, by cause, since this node began.
struct LinkCounters {
    std::uint64_t turned_away = 0;           // connections, for whichever of the next four causes
    std::uint64_t too_many = 0;              // turned away unheard, because others came: too many strangers
    std::uint64_t handshake_failed = 0;      // did not get as far as a greeting, or not in time
    std::uint64_t refused = 0;               // greeted, but is not wanted
    std::uint64_t malformed = 0;             // greeting or link that ended because of what was said
    std::uint64_t dropped_slow = 0;          // links that ended because the peer does not read
    std::uint64_t dropped_unconfirmed = 0;   // ... because it does not confirm what it was sent
    std::uint64_t dropped_loud = 0;          // ... because it sends more control messages than anybody needs
    std::uint64_t dropped_without_bulk = 0;  // ... because a bulk connection did not come back
    std::uint64_t handshakes_delayed = 0;
    std::uint64_t control_delayed = 0;  // how often a peer was not read because it sent too many messages
};

struct LinksState;  // link.h

class Links {
public:
    Links(asio::io_context& loop, const SecretKey& key, const Credential& credential, const LinkOptions& options,
          LinkEvents& events, BulkReceiver& receiver);
    ~Links();
    Links(const Links&) = delete;
    Links& operator=(const Links&) = delete;

    // "host:port", "[v6]:port", ":port" (loopback). Port 0: any that is free. Where we listen then.
    [[nodiscard]] Result<tcp::endpoint> listen(const std::string& address);

    // A connection that somebody else accepted, who saw that it is for us: the descriptor is ours from now on.
    void adopt(int descriptor);

    // A link to the node at `address`: link_up or dial_failed follows, or nothing where there is one by then. A zero
    // id: to whoever answers there; answered(), after link_up if that is due, or dial_failed follows. Names are
    // resolved anew each time.
    void dial(NodeId peer, const std::string& address);

    // Control messages: of the cluster's protocol, and of those who work over the link. False: there is no such link,
    // or no frame is as long as the message, for which its receiver would drop the link.
    bool send(NodeId to, std::span<const std::uint8_t> message);
    bool send_work(NodeId to, std::span<const std::uint8_t> message);

    // Queues a bulk frame. The payload is not copied: `owner` keeps it until it has left, or the link is gone. Frames
    // of equal kind and equal `lane` arrive in order; different lanes may use different connections. Frames of any_lane
    // leave in order, and each connection keeps it.
    bool send_bulk(NodeId to, const BulkHead& head, std::span<const std::byte> payload, std::uint32_t lane,
                   std::shared_ptr<const void> owner);
    // Frames of gradients with these numbers that have not begun to leave are dropped.
    void cancel_gradients(std::uint64_t first, std::uint64_t second);
    // Likewise frames of results with this first number, to this peer.
    void cancel_results(NodeId to, std::uint64_t first);
    // What had to wait may be read now.
    void resume(NodeId from);

    // Measures the round trip of a control message.
    bool ping(NodeId peer);

    // Closes the link once the messages sent before have left, or after a while; bulk data is not waited for. There is
    // no such link from now on, and nothing of it is heard: no link_closed follows.
    void close(NodeId peer);
    // Everything, at once: no event follows, and no bulk data. Its destructor stops it too.
    void stop();

    [[nodiscard]] bool linked(NodeId peer) const;
    [[nodiscard]] std::vector<NodeId> peers() const;
    [[nodiscard]] LinkFigures figures(NodeId peer) const;
    [[nodiscard]] const LinkCounters& counters() const;

private:
    std::shared_ptr<LinksState> state_;
};

}  // namespace chaos::net
