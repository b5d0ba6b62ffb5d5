// One process's end in a benchmark: links and a collective engine on a loop of its own, and nothing else of a node.
#pragma once

#include "collective/engine.h"
#include "collective/live.h"
#include "net/links.h"
#include "numbered_nodes.h"

#include <functional>
#include <memory>
#include <string>

namespace chaos::bench {

using cluster::NodeId;

class Peer final : public net::LinkEvents {
public:
    // `in_the_clear`: without TLS. Bulk data goes to `receiver`; if there is none, to the collective engine.
    Peer(unsigned number, bool in_the_clear, std::uint32_t bulk_connections, net::BulkReceiver* receiver = nullptr);

    // Where it listens then.
    [[nodiscard]] std::uint16_t listen(const std::string& address);
    // Dials; returns once the link stands here.
    void connect(unsigned number, const std::string& address);
    void await_links(std::size_t count);

    // How all_reduce() sums the vectors of the peers 0 .. count - 1: by a plan for one machine, or by this one, for
    // `request`, in fp32.
    [[nodiscard]] plan::SyncShape plan(unsigned count, std::size_t floats, collective::Encoding encoding);
    void follow(const plan::SyncPlan& plan, unsigned count, const plan::SyncRequest& request);
    // Returns when this peer has the result. Others may still need what it owes them: its loop must go on.
    void all_reduce(std::span<const float> input, std::span<float> output);

    // Returns when the other `count` - 1 peers have come here too, and hence have what this one owed them.
    void barrier(unsigned count);
    // The last barrier: peer 0 goes when all others have come, and they when it has gone.
    void finish(unsigned count);

    void run_until(const std::function<bool()>& condition);
    // For a moment, whatever there is to do.
    void run_briefly();

    // What control messages of the cluster are given to.
    std::function<void(NodeId, std::span<const std::uint8_t>)> on_message;

    Result<void> admit(const net::Proven& peer) override;
    void link_up(NodeId peer) override;
    void link_closed(NodeId peer, const std::string& why) override;
    void dial_failed(NodeId peer, const std::string& address, const std::string& why) override;
    void answered(NodeId, const std::string&) override {}
    void received(NodeId from, std::span<const std::uint8_t> message) override;
    void received_work(NodeId from, std::span<const std::uint8_t> message) override;
    void turned_away(const std::string& who, const std::string& why) override;

    net::asio::io_context loop{1};
    bool others_may_go = false;  // else a link that closes ends the benchmark

private:
    unsigned number_;
    NodeId id_;
    collective::LiveTransport transport_;
    collective::Engine engine_;
    std::size_t links_up_ = 0;
    std::shared_ptr<const collective::Schedule> schedule_;
    std::uint64_t step_ = 0;
    bool ended_ = false;
    std::uint64_t barriers_ = 0;
    std::uint64_t arrivals_ = 0;  // of others at barriers

public:
    net::Links links;  // last: it is the first to go
};

}  // namespace chaos::bench
