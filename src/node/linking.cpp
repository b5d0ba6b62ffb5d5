// What people ask about this node's links (docs/control.md).
#include "node/node.h"
#include "node/status.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace chaos::node {

using cluster::brief;
using elastic::NodeId;
using nlohmann::json;

Result<NodeId> Node::node_called(const std::string& beginning) const {
    std::vector<NodeId> found;
    for (const cluster::MemberInfo& member : view_->members)
        if (!beginning.empty() && text_of(member.id.node).starts_with(beginning)) found.push_back(member.id.node);
    if (found.size() == 1) return found.front();
    return Error{(found.empty() ? "no member's id begins with " : "several members' ids begin with ") + beginning};
}

void Node::answer_link(const json& request, const Reply& reply) {
    if (!view_) return reply.refuse("this node is in no cluster");
    const Result<NodeId> a = node_called(request.at("a").get<std::string>());
    if (!a) return reply.refuse(a.error().message);
    const Result<NodeId> b = node_called(request.at("b").get<std::string>());
    if (!b) return reply.refuse(b.error().message);
    const NodeId self = participant_->member().id();
    if (*a == *b || (*a != self && *b != self))
        return reply.refuse("one end must be this node, " + brief(self) + ", and the other another one");
    const bool add = request.at("change").get<std::string>() == "add";
    const NodeId peer = *a == self ? *b : *a;
    if ((view_->find(cluster::link_between(self, peer)) != nullptr) == add)
        return reply.refuse(add ? "they are linked already" : "there is no such link");
    std::erase_if(link_wishes_, [](const LinkWish& wish) { return !wish.reply.open(); });
    link_wishes_.push_back({.peer = peer, .add = add, .reply = reply});
    if (add) {
        participant_->member().tell(cluster::ConnectCommand{peer});
    } else {
        participant_->member().tell(cluster::DisconnectCommand{peer});
    }
}

// The members whom the removal of links cut off go with them, and whoever asked for it hears of that.
void Node::answer_link_wishes(const cluster::View& view, const cluster::Delta* led) {
    const NodeId self = participant_->member().id();
    std::string cut_off;
    for (const cluster::Removal& removal : led == nullptr ? std::vector<cluster::Removal>{} : led->removals) {
        if (removal.reason != cluster::Reason::cut_off && removal.reason != cluster::Reason::not_reached) continue;
        cut_off += (cut_off.empty() ? "" : ", ") + (removal.node == self ? "this node" : brief(removal.node));
    }
    if (!cut_off.empty()) cut_off = "; that left no way to " + cut_off + ", no longer a member";
    std::erase_if(link_wishes_, [&](const LinkWish& wish) {
        if ((view.find(cluster::link_between(self, wish.peer)) != nullptr) != wish.add) return false;
        wish.reply.answer({{"text", wish.add ? "linked with " + brief(wish.peer)
                                             : "the link with " + brief(wish.peer) + " is given up" + cut_off}});
        return true;
    });
}

}  // namespace chaos::node
