// What keeps the cluster's core going where nothing is trained. The core thinks in steps: views hold from a step on,
// newcomers are let in at a step. Here a step is a *round*: it is over when every active member is known to be done
// with it, and nothing else comes of it. Members tell their neighbours who is done, as far as they know, until all
// are.
//
//   start_step(s) ── after a while: "done with s: me" ──► neighbours add themselves, pass it on ──► all: Applied(s)
//
// Rounds are slow, a few in a second, unless somebody is to be let in. A round that was interrupted is begun anew under
// the next view; one that somebody saw the end of is over for everybody.
//
// Only active members of the view are believed, and only what can be: a round ends with the last of them, so nobody is
// far ahead of another. A newcomer does not know yet where they are. It hears all of them, or those that speak within a
// while, and believes the one in the middle: one among several that says what is not so does not lead it astray.
//
// Everything is called in the loop's thread.
#pragma once

#include "cluster/view.h"

#include "proto/session.pb.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace chaos::tensor {

using cluster::NodeId;
using cluster::ViewPtr;

class Rounds {
public:
    struct Callbacks {
        std::function<void(const wire::Round&)> tell;       // to all neighbours
        std::function<void(std::uint64_t step)> applied;    // for the core
        std::function<void(std::uint64_t applied)> synced;  // a newcomer knows where the others are
    };
    Rounds(boost::asio::io_context& loop, NodeId self, Callbacks callbacks);

    // As live::Worker's.
    void start_step(std::uint64_t step, const ViewPtr& view);
    void stop_step();
    void take_result(std::uint64_t step);
    void begin_sync();
    void activated(std::uint64_t first_step);
    void adopted(const ViewPtr& view);
    void received(NodeId from, const wire::Round& message);

private:
    // How far it is: the newest that was heard of, too.
    struct Current {
        std::uint64_t epoch = 0;
        std::uint64_t step = 0;
        ViewPtr view;
        std::set<NodeId> done;
    };
    // Until its first round.
    struct Newcomer {
        std::map<NodeId, std::uint64_t> steps;  // that its neighbours are at, as they say
        std::chrono::steady_clock::time_point hears_since;
        bool synced = false;
        std::uint64_t applied = 0;
        std::optional<std::uint64_t> first_step;  // once it was let in
    };
    void tell();
    void say_done();
    void look();
    void wait(std::chrono::milliseconds pause, void (Rounds::*then)());
    [[nodiscard]] bool is_member(NodeId node) const;
    [[nodiscard]] bool can_be(std::uint64_t step) const;
    void received_by_newcomer(NodeId from, std::uint64_t step);
    void sync();
    void follow();

    NodeId self_;
    Callbacks callbacks_;
    boost::asio::steady_timer timer_;
    ViewPtr view_;  // the newest
    std::optional<Current> current_;
    std::uint64_t newest_ = 0;  // step that somebody is at
    std::optional<Newcomer> newcomer_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace chaos::tensor
