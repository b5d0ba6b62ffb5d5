// A process's end in a benchmark in the testbed: links, encrypted as always, and a collective engine on a loop of its
// own. Whatever goes wrong ends the process.
#pragma once

#include "collective/engine.h"
#include "collective/live.h"
#include "net/links.h"

#include <functional>
#include <memory>
#include <string>

namespace chaos::bench {

using cluster::NodeId;

class Station final : public net::LinkEvents {
public:
    // Stations know each other's keys beforehand: they are made from their numbers.
    Station(unsigned number, std::uint32_t bulk_connections);
    [[nodiscard]] static NodeId id_of(unsigned number);

    void listen(const std::string& address);
    // Dials; returns once the link stands here.
    void connect(unsigned number, const std::string& address);
    void await_links(std::size_t count);

    // How all_reduce() sums the vectors of the stations 0 .. count - 1: a plan for `request`, in fp32.
    void follow(const plan::SyncPlan& plan, unsigned count, const plan::SyncRequest& request);
    // Returns when this one has the result.
    void all_reduce(std::span<const float> input, std::span<float> output);
    // Returns when the other `count` - 1 stations have come here too, and hence have what this one owed them.
    void barrier(unsigned count);
    // The last barrier: station 0 goes when all others have come, and they when it has gone.
    void finish(unsigned count);

    void run_until(const std::function<bool()>& condition);

    Result<void> admit(const net::Proven& peer) override;
    void link_up(NodeId peer) override;
    void link_closed(NodeId peer, const std::string& why) override;
    void dial_failed(NodeId peer, const std::string& address, const std::string& why) override;
    void received(NodeId from, std::span<const std::uint8_t> message) override;
    void received_work(NodeId from, std::span<const std::uint8_t> message) override;
    void turned_away(const std::string& who, const std::string& why) override;

    net::asio::io_context loop{1};

private:
    unsigned number_;
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
