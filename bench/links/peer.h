// One process's end in a benchmark: links and a collective engine on a loop of its own, and nothing else of a node.
#pragma once

#include "collective/engine.h"
#include "collective/live.h"
#include "net/links.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chaos::bench {

using cluster::NodeId;

// Processes of one benchmark know each other's keys beforehand: the key of number `n` is made from `n`.
[[nodiscard]] net::SecretKey key_of(unsigned number);

class Peer final : public net::LinkEvents {
public:
    // `in_the_clear`: without TLS, as the rival is.
    Peer(unsigned number, bool in_the_clear, std::uint32_t bulk_connections);

    // Where it listens then.
    [[nodiscard]] std::uint16_t listen(const std::string& address);
    // Dials; returns once the link stands, here and there.
    void connect(unsigned number, const std::string& address);
    void await_links(std::size_t count);

    // Sums the vectors of all peers 0 .. count - 1; returns when this one has the result.
    void all_reduce(std::span<const float> input, std::span<float> output);
    // Returns when the other `count` - 1 peers are done too, and hence have what this one owed them.
    void barrier(unsigned count);
    void plan(unsigned count, std::size_t floats, collective::Encoding encoding);

    void run_until(const std::function<bool()>& condition);

    Result<void> admit(const net::Proven& peer) override;
    void link_up(NodeId peer) override;
    void link_closed(NodeId peer, const std::string& why) override;
    void dial_failed(NodeId peer, const std::string& address, const std::string& why) override;
    void received(NodeId from, std::span<const std::uint8_t> message) override;
    void received_work(NodeId, std::span<const std::uint8_t>) override {}
    void turned_away(const std::string& who, const std::string& why) override;

    net::asio::io_context loop{1};
    NodeId id;

private:
    [[nodiscard]] NodeId id_of(unsigned number) const;

    unsigned number_;
    bool in_the_clear_;
    collective::LiveTransport transport_;
    collective::Engine engine_;
    std::size_t links_up_ = 0;
    std::shared_ptr<const collective::Schedule> schedule_;
    std::uint64_t step_ = 0;
    bool ended_ = false;
    std::uint64_t barriers_ = 0;
    std::uint64_t done_messages_ = 0;

public:
    net::Links links;
};

}  // namespace chaos::bench
