// What people ask a node, through its control socket (docs/control.md).
#include "node/node.h"

#include "cluster/compose.h"
#include "net/credential.h"
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

// What is asked of the cluster about an institution, as the core is told.
Result<cluster::InstitutionCommand> institution_command(const json& request) {
    const std::string change = request.at("change").get<std::string>();
    if (change == "revoke") {
        CHAOS_TRY(const net::Revocation revocation,
                  net::revocation_from_text(request.at("revocation").get<std::string>()));
        CHAOS_CHECK(net::check(revocation));
        return cluster::InstitutionCommand{
            .kind = cluster::RequestKind::revoke_node, .root = {}, .revocation = net::encode(revocation)};
    }
    if (change != "admit" && change != "remove")
        return Error{"an institution is admitted or removed, or it revokes; not \"" + change + "\""};
    CHAOS_TRY(const net::PublicKey root, net::key_from_text(request.at("root").get<std::string>()));
    return cluster::InstitutionCommand{
        .kind = change == "admit" ? cluster::RequestKind::admit_institution : cluster::RequestKind::remove_institution,
        .root = root,
        .revocation = {}};
}

// The same, as all members would hear of it.
cluster::Request request_of(const cluster::InstitutionCommand& command, cluster::MemberId author) {
    cluster::Request request;
    request.kind = command.kind;
    request.name = command.root;
    request.revocation = command.revocation;
    request.stamp.author = author;
    if (command.kind == cluster::RequestKind::revoke_node) {
        const net::Revocation revocation = *net::decode_revocation(command.revocation);
        request.name = revocation.institution;
        request.subject.node = net::node_id(revocation.subject);
    }
    return request;
}

// Whether the view has what was asked for. It may be one without the author.
bool has(const cluster::View& view, const cluster::Request& request) {
    if (request.kind == cluster::RequestKind::revoke_node) return view.revokes(request.subject.node, request.name);
    return view.institution_in(request.name) == (request.kind == cluster::RequestKind::admit_institution);
}

std::string words_when_done(const cluster::Request& request) {
    if (request.kind == cluster::RequestKind::revoke_node)
        return "revoked, for good: the node or token " + brief(request.subject.node) + " of the institution " +
               brief(request.name);
    return "the institution " + brief(request.name) +
           (request.kind == cluster::RequestKind::admit_institution ? " is in; nodes that it vouches for may join"
                                                                    : " is out, with its nodes");
}

}  // namespace

void Node::answer(const json& request, const Reply& reply) {
    const std::string command = request.at("command").get<std::string>();
    if (command == "status") {
        reply.send(status());
        if (request.value("watch", false)) return reply.subscribe("status");
        return reply.end();
    }
    if (command == "events") return answer_events(story_, request, reply);
    if (command == "why") {
        const cluster::Member& core = participant_->member().core();
        Why now = why();
        if (const Result<cluster::Recovery> possible = core.recovery(); possible) {
            now.details.push_back("not here: " + names_of(possible->lost));
            now.details.push_back("if they are lost for good: chaos recover --dir " + options_.dir.string() +
                                  " says what going on without them would mean");
        }
        return reply.answer({{"why", now.why}, {"details", now.details}});
    }
    if (command == "leave") {
        leaving_.push_back(reply);
        reply.send({{"text", "asks the others to go on without it"}});
        return leave();
    }
    if (command == "link") return answer_link(request, reply);
    if (command == "recover") return answer_recover(request, reply);
    if (command == "institution") return answer_institution(request, reply);
    reply.refuse("this node does not know the command " + command);
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

void Node::answer_institution(const json& request, const Reply& reply) {
    const Result<cluster::InstitutionCommand> command = institution_command(request);
    if (!command) return reply.refuse(command.error().message);
    const cluster::MemberInfo* self = view_ ? view_->find(participant_->member().id()) : nullptr;
    if (self == nullptr) return reply.refuse("this node is not a member of a cluster");
    const cluster::Request asked = request_of(*command, self->id);
    const cluster::Fitness fit = cluster::fitness(*view_, asked, nullptr);
    if (fit.kind == cluster::Fitness::Kind::refused) return reply.refuse(fit.why);
    if (fit.kind == cluster::Fitness::Kind::done) return reply.refuse("that is so already: " + words_when_done(asked));
    const auto others = static_cast<std::size_t>(
        std::ranges::count_if(view_->institutions, [&](const cluster::Institution& institution) {
            return institution.standing == cluster::InstitutionStanding::in && institution.root != asked.name;
        }));
    const bool removes = asked.kind == cluster::RequestKind::remove_institution;
    if (removes && others == 0) return reply.refuse("it is the only institution of this cluster");
    const bool own = removes && self->institution == asked.name;
    if (asked.kind != cluster::RequestKind::revoke_node && !own && others > 1)
        reply.send({{"text", "asks in the name of this node's institution; " + std::to_string(others / 2 + 1) + " of " +
                                 std::to_string(others) +
                                 " have to ask for it, each through a node of its own. This node goes on asking when "
                                 "this command is interrupted, until it ends itself"}});
    wishes_.push_back(
        {.done = [asked](const cluster::View& view) { return has(view, asked) ? words_when_done(asked) : ""; },
         .reply = reply});
    participant_->member().tell(*command);
}

}  // namespace chaos::node
