// How a node begins again that may found a cluster: it knows where others were when it ran last, and asks them for a
// while. Where one of them is in a cluster, it joins that; else it founds one. Of several that begin again at once only
// one founds, that with the smallest id; the others go on asking, and join it. Whoever is about to join somebody is
// waited for, but not for long: those that it would join may be gone.
//
//   ask all who are there ──► somebody is in a cluster ──────────────────────► join it
//     ▲                  └──► nobody is, for a while, and none that ──────────► found
//     └── a moment later      founds has a smaller id
//
// Everything is called, and calls back, in the loop's thread.
#pragma once

#include "cluster/id.h"

#include "proto/session.pb.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace chaos::tensor {

using cluster::NodeId;

class Beginning {
public:
    struct Callbacks {
        std::function<void(const std::string& address)> dial;  // whoever is there
        std::function<std::vector<NodeId>()> linked;
        std::function<void(NodeId to, const wire::Beginning& message)> send;
        // The last of what is called.
        std::function<void(NodeId member, const std::string& address)> join;
        std::function<void()> found;
    };
    static constexpr std::chrono::milliseconds usual_patience{4000};
    // How much longer it may take to be let in by somebody.
    static constexpr int joining_patience = 5;
    // `address`: this node's own.
    Beginning(boost::asio::io_context& loop, NodeId self, std::string address, std::vector<std::string> others,
              Callbacks callbacks, std::chrono::milliseconds patience = usual_patience);
    ~Beginning();
    Beginning(const Beginning&) = delete;
    Beginning& operator=(const Beginning&) = delete;

    void link_down(NodeId peer);
    void received(NodeId from, const wire::Beginning& message);
    [[nodiscard]] bool over() const { return over_; }

private:
    using Clock = std::chrono::steady_clock;
    struct Peer {
        Clock::time_point since;
        bool heard = false;
        wire::Beginning said;           // the last of it
        Clock::time_point joins_since;  // if it said so
    };
    void look();
    void wait();
    [[nodiscard]] bool may_found() const;

    NodeId self_;
    std::string address_;
    std::vector<std::string> others_;
    Callbacks callbacks_;
    std::chrono::milliseconds patience_;
    Clock::time_point begun_ = Clock::now();
    Clock::time_point dial_at_;
    std::map<NodeId, Peer> peers_;
    bool over_ = false;
    boost::asio::steady_timer timer_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace chaos::tensor
