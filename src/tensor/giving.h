// The giving end of units (infer/units.h): whoever has a model's file, or some of its image, sends what others of the
// cluster lack. Units are read on a thread of their own and compared with their hashes before they leave: a disk that
// lost a bit makes nobody a liar.
//
// Nothing here grows without a limit: an ask is for a MiB, of one peer only so many wait, and what is on its way to it
// is bounded. Peers take turns.
//
// Everything is called, and calls back, in the loop's thread.
#pragma once

#include "infer/manifest.h"
#include "infer/units.h"
#include "net/transfers.h"

#include "proto/units.pb.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace chaos::tensor {

namespace asio = boost::asio;
using cluster::NodeId;

// The most that one ask is for, unless a single unit is more.
inline constexpr std::uint64_t max_ask_bytes = 1 << 20;

class Giving {
public:
    struct Callbacks {
        // Sends a message; no link is no error: who asked asks again, or somebody else.
        std::function<void(NodeId to, const wire::UnitWork& message)> send;
        std::function<bool(NodeId from)> may_ask;  // members of the view, and who is about to be one
        std::function<void(const std::string& text)> note;
        // A unit turned out to be wrong on this node's disk, and was not sent: an image should forget it.
        std::function<void(std::size_t unit)> spoilt;
    };

    Giving(asio::io_context& loop, net::Transfers& transfers, Callbacks callbacks);
    ~Giving();
    Giving(const Giving&) = delete;
    Giving& operator=(const Giving&) = delete;

    // From now on these are given, instead of what was before.
    void offer(const infer::Manifest& manifest, std::shared_ptr<const infer::UnitSource> units);
    void withdraw();

    void received(NodeId from, const wire::ManifestAsk& ask);
    void received(NodeId from, const wire::HoldingAsk& ask);
    void received(NodeId from, const wire::UnitAsk& ask);
    void link_down(NodeId peer);

    [[nodiscard]] std::uint64_t given_bytes() const { return given_bytes_; }
    // What is held for others.
    struct Load {
        std::size_t wishes = 0;
        std::uint64_t bytes_on_their_way = 0;
    };
    [[nodiscard]] Load load() const;

private:
    struct Offer {
        std::string identity;
        std::string manifest;  // encoded
        std::vector<Digest> hashes;
        std::shared_ptr<const infer::UnitSource> units;
    };
    struct Wish {
        NodeId from;
        std::uint64_t transfer = 0;
        std::size_t first = 0;
        std::size_t count = 0;
        std::uint64_t bytes = 0;
    };
    // Bytes that were sent and not confirmed.
    struct OnTheirWay {
        std::map<NodeId, std::uint64_t> to;  // only those to whom something is

        void add(NodeId peer, std::uint64_t bytes);
        void has_left(NodeId peer, std::uint64_t bytes);
        [[nodiscard]] bool has_room(NodeId peer, std::uint64_t bytes) const;
    };

    void refuse(NodeId from, std::uint64_t transfer);
    void serve();
    void give(const Wish& wish);

    asio::io_context& loop_;
    net::Transfers& transfers_;
    Callbacks callbacks_;
    std::shared_ptr<const Offer> offer_;
    std::deque<Wish> wishes_;
    std::set<std::size_t> spoilt_;  // units of which it was said; others ask for them every now and then
    std::shared_ptr<OnTheirWay> on_their_way_ = std::make_shared<OnTheirWay>();
    std::uint64_t given_bytes_ = 0;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
    asio::thread_pool reader_{1};
};

}  // namespace chaos::tensor
