// What people ask a node, through its control socket (docs/control.md).
#include "node/node.h"

#include "node/status.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace chaos::node {
namespace {

using cluster::brief;
using elastic::NodeId;
using nlohmann::json;

std::string names_of(const std::vector<NodeId>& nodes) {
    constexpr std::size_t most_named = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(nodes.size(), most_named); ++i) text += (i > 0 ? ", " : "") + brief(nodes[i]);
    if (nodes.size() > most_named) text += " and " + std::to_string(nodes.size() - most_named) + " more";
    return text;
}

// What going on without a quorum means, before anybody does it.
std::vector<std::string> explain(const cluster::Recovery& recovery) {
    const std::string steps = std::to_string(recovery.applied) + " steps";
    std::vector<std::string> lines{
        "of the " + std::to_string(recovery.view->active_count()) + " active members of view " +
            brief(recovery.view->name) + ", " + std::to_string(recovery.here.size()) +
            (recovery.here.size() == 1 ? " is here: " : " are here: ") + names_of(recovery.here),
        "not here: " + names_of(recovery.lost) + "; under the policy strict nothing goes on without a quorum",
    };
    if (recovery.founds) {
        lines.push_back(
            "recovered, those that are here would found the cluster again from the newest checkpoint among "
            "them (this node's is of " +
            steps + "); later steps would be lost");
    } else {
        lines.push_back("recovered, those that are here would go on from where they are (" + steps +
                        " here), as a fork of the line; steps that only the others have would be lost");
    }
    lines.emplace_back(
        "the others would come back as newcomers, with nothing of their own; but where a quorum of them "
        "runs elsewhere, or is started again together, its line wins when both meet, and what was "
        "trained here until then is thrown away");
    return lines;
}

}  // namespace

void Node::answer(const json& request, const Reply& reply) {
    const std::string command = request.at("command").get<std::string>();
    if (command == "status") {
        reply.send(status());
        if (request.value("watch", false)) return reply.subscribe("status");
        return reply.end();
    }
    if (command == "events") return answer_events(request, reply);
    if (command == "why") {
        const cluster::Member& core = participant_->member().core();
        json details = json::array();
        if (!refusal_.empty()) details.push_back(refusal_);
        if (const Result<cluster::Recovery> possible = core.recovery(); possible) {
            details.push_back("not here: " + names_of(possible->lost));
            details.push_back("if they are lost for good: chaos recover --dir " + options_.dir.string() +
                              " says what going on without them would mean");
        }
        if (participant_->joiner().running()) {
            const elastic::Joiner::Progress progress = participant_->joiner().progress();
            details.push_back("has " + std::to_string(progress.shards) + " of " + std::to_string(progress.of) +
                              " shards of the state");
        }
        return reply.answer({{"why", why()}, {"details", details}});
    }
    if (command == "leave") {
        leaving_.push_back(reply);
        reply.send({{"text", "asks the others to go on without it"}});
        return leave();
    }
    if (command == "link") return answer_link(request, reply);
    if (command == "recover") return answer_recover(request, reply);
    reply.refuse("this node does not know the command " + command);
}

void Node::answer_events(const json& request, const Reply& reply) {
    const auto& events = story_.events();
    const auto last = std::min<std::uint64_t>(request.value("last", std::uint64_t{events.size()}), events.size());
    for (std::size_t i = events.size() - last; i < events.size(); ++i) reply.send(to_json(events[i]));
    if (request.value("follow", false)) return reply.subscribe("events");
    reply.end();
}

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
    wishes_.push_back({.done = [self, peer, add](const cluster::View& view) -> std::string {
                           if ((view.find(cluster::link_between(self, peer)) != nullptr) != add) return "";
                           return add ? "linked with " + brief(peer) : "the link with " + brief(peer) + " is given up";
                       },
                       .reply = reply});
    if (add) {
        participant_->member().tell(cluster::ConnectCommand{peer});
    } else {
        participant_->member().tell(cluster::DisconnectCommand{peer});
    }
}

void Node::answer_recover(const json& request, const Reply& reply) {
    live::Member& member = participant_->member();
    const Result<cluster::Recovery> possible = member.core().recovery();
    if (!possible) return reply.refuse(possible.error().message);
    for (const std::string& line : explain(*possible)) reply.send({{"text", line}});
    if (!request.value("force", false))
        return reply.answer({{"text", "nothing was changed; if they are lost for good: chaos recover --force --dir " +
                                          options_.dir.string()}});
    reply.send({{"text", "asks those that are here to go on"}});
    tell("recover", "was told that those who are missing are lost for good: " + names_of(possible->lost));
    wishes_.push_back(
        {.done = [before = possible->view->epoch](const cluster::View& view) -> std::string {
             if (view.epoch <= before) return "";
             if (view.fork != cluster::Fork::forced)
                 return "enough members were there after all: nothing was forced, and they go on together";
             return "recovered: view " + brief(view.name) + " goes on with " + std::to_string(view.active_count()) +
                    (view.active_count() == 1 ? " active member from step " : " active members from step ") +
                    std::to_string(view.first_step);
         },
         .reply = reply});
    member.tell(cluster::RecoverCommand{});
}

}  // namespace chaos::node
