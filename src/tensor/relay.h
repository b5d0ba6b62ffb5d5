// Messages of a session (session.h) to members that this node has no link with: members in between pass them on, along
// the view's links. So no more is asked of the overlay than that it holds together: a leader or a chief may have more
// members than links, and a link may be gone while both its ends are alive.
//
//   author ──link──► member ──link──► member ──link──► to        each passes it on once, the nearest way it knows of
//
// The author signs what it says; whoever it is for checks that. Nothing is confirmed, and nothing is sent again: what
// is lost with a link, or finds no way further on, is made up for by those whose link it was. They know which
// generation of the session leaned on the link, and have it divided anew (Session::link_down). Where there is no way
// from the author on, send() says so, and the author sees to it.
//
// Nor is order kept: where a link comes or goes, what is said later may overtake what was said before. Whatever counts
// on an order says its place in it (Told), and whoever misses something has the session divided anew.
//
// Everything is called, and calls back, in the loop's thread.
#pragma once

#include "cluster/message.h"
#include "cluster/view.h"

#include "proto/session.pb.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace chaos::tensor {

using cluster::NodeId;
using cluster::ViewPtr;

class Relay {
public:
    struct Callbacks {
        std::function<bool(NodeId to, const wire::Work& message)> send;  // over a link; false: there is none
        std::function<std::vector<NodeId>()> linked;
        // For this node.
        std::function<void(NodeId author, const wire::Work& message)> received;
        // Something of this generation could not be passed on.
        std::function<void(std::uint64_t generation)> lost;
    };
    // `signer` must outlive it.
    Relay(NodeId self, const cluster::Signer& signer, Callbacks callbacks)
        : self_(self), signer_(signer), callbacks_(std::move(callbacks)) {}

    void adopted(const ViewPtr& view) { view_ = view; }
    // Over a link, or over others. False: there is no way.
    bool send(NodeId to, const wire::Work& message);
    void received(NodeId from, const wire::Relayed& message);
    // The newest generation of which something went over the link with the peer for those at other links; 0: none.
    [[nodiscard]] std::uint64_t carried(NodeId peer) const;

private:
    [[nodiscard]] std::optional<NodeId> next_for(const wire::Relayed& message) const;
    [[nodiscard]] bool pass_on(wire::Relayed message);
    void carries(NodeId peer, std::uint64_t generation);

    NodeId self_;
    const cluster::Signer& signer_;
    Callbacks callbacks_;
    ViewPtr view_;
    std::map<NodeId, std::uint64_t> carried_;
};

}  // namespace chaos::tensor
