// Watches a node's links: once a second it measures each round trip and tells what each link carries. Rates come from
// real transfers; a link over which nothing has been sent is probed once, for a fifth of a second, and only between
// members that train: a joiner has better use for its links.
#pragma once

#include "net/links.h"

#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <map>
#include <memory>

namespace chaos::live {

using cluster::NodeId;

class Watch {
public:
    struct Callbacks {
        std::function<void(NodeId peer, std::uint64_t bytes_per_s)> measured;  // what the peer sends us
        std::function<bool(NodeId peer)> may_probe;
    };
    Watch(net::asio::io_context& loop, net::Links& links, Callbacks callbacks);
    void start();
    void stop();

private:
    struct Watched {
        net::Clock::time_point since;
        bool probed = false;
    };
    struct Probe {
        NodeId peer;
        net::Clock::time_point until;
        std::uint64_t sent_before = 0;
        std::uint64_t queued = 0;
    };
    void look();
    void probe(const std::shared_ptr<Probe>& probe);

    net::Links& links_;
    Callbacks callbacks_;
    net::asio::steady_timer tick_;
    net::asio::steady_timer probing_;
    std::map<NodeId, Watched> watched_;
    bool probe_runs_ = false;  // one at a time: two would measure each other
    // False once it has stopped; timers that have expired by then look at it.
    std::shared_ptr<bool> runs_ = std::make_shared<bool>(true);
};

}  // namespace chaos::live
