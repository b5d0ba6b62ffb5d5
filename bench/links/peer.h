// One process's end in a benchmark: links and a collective engine on a loop of its own, and nothing else of a node.
#pragma once

#include "collective/engine.h"
#include "collective/live.h"
#include "net/links.h"

#include <functional>
#include <memory>
#include <string>

namespace chaos::bench {

using cluster::NodeId;

// Processes of one benchmark know each other's keys beforehand: the key of number `n` is made from `n`.
[[nodiscard]] net::SecretKey key_of(unsigned number);
[[nodiscard]] NodeId id_of(unsigned number);
[[nodiscard]] net::Credential credential_of(unsigned number);

class Peer final : public net::LinkEvents {
public:
    // `in_the_clear`: without TLS. Bulk data goes to `receiver`; if there is none, to the collective engine.
    Peer(unsigned number, bool in_the_clear, std::uint32_t bulk_connections, net::BulkReceiver* receiver = nullptr);

    // Where it listens then.
    [[nodiscard]] std::uint16_t listen(const std::string& address);
    // Dials; returns once the link stands here.
    void connect(unsigned number, const std::string& address);
    void await_links(std::size_t count);

    // How all_reduce() sums the vectors of the peers 0 .. count - 1.
    [[nodiscard]] plan::SyncShape plan(unsigned count, std::size_t floats, collective::Encoding encoding);
    // Returns when this peer has the result. Others may still need what it owes them: its loop must go on.
    void all_reduce(std::span<const float> input, std::span<float> output);

    void run_until(const std::function<bool()>& condition);
    // For a moment, whatever there is to do.
    void run_briefly();

    // What control messages of the cluster are given to.
    std::function<void(NodeId, std::span<const std::uint8_t>)> on_message;

    Result<void> admit(const net::Proven& peer) override;
    void link_up(NodeId peer) override;
    void link_closed(NodeId peer, const std::string& why) override;
    void dial_failed(NodeId peer, const std::string& address, const std::string& why) override;
    void received(NodeId from, std::span<const std::uint8_t> message) override;
    void received_work(NodeId, std::span<const std::uint8_t>) override {}
    void turned_away(const std::string& who, const std::string& why) override;

private:
    net::asio::io_context loop_{1};
    NodeId id_;
    collective::LiveTransport transport_;
    collective::Engine engine_;
    std::size_t links_up_ = 0;
    std::shared_ptr<const collective::Schedule> schedule_;
    std::uint64_t step_ = 0;
    bool ended_ = false;

public:
    net::Links links;
};

}  // namespace chaos::bench
