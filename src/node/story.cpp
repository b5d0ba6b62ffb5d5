#include "node/story.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace chaos::node {
namespace {

using cluster::brief;

Event event_of(const std::string& kind, const std::string& text, const cluster::View& view) {
    return {.time = 0.0, .kind = kind, .text = text, .view = view.name, .step = view.first_step};
}

std::string words_of(const cluster::LinkId& link) {
    return brief(link.a) + " and " + brief(link.b);
}

// Who went by its own will, or was sent away, left; who is not reached, or began anew, failed.
Event departure(cluster::NodeId node, const cluster::View& now, const cluster::Delta* led) {
    using cluster::Reason;
    const std::string text =
        brief(node) + (now.revokes(node, {}) ? " was expelled, for good" : " is no longer a member");
    if (led == nullptr) return event_of("left", text, now);
    const auto removal = std::ranges::find(led->removals, node, &cluster::Removal::node);
    if (removal == led->removals.end()) return event_of("left", text, now);
    const bool failed = removal->reason == Reason::failed || removal->reason == Reason::restarted ||
                        removal->reason == Reason::not_reached;
    return event_of(failed ? "failed" : "left", text + ": " + std::string(cluster::words_of(removal->reason)), now);
}

Event interruption(const cluster::View& now) {
    std::string text = "step " + std::to_string(now.first_step) + " was interrupted, and is done again";
    const std::vector<cluster::NodeId>& holders = now.settlement->holders;
    if (!holders.empty()) {
        text += "; who lacks the result of the one before takes it from ";
        for (std::size_t i = 0; i < holders.size(); ++i) text += (i > 0 ? ", " : "") + brief(holders[i]);
    }
    return event_of("step", text, now);
}

}  // namespace

nlohmann::json to_json(const Event& event) {
    nlohmann::json json{{"time", event.time}, {"kind", event.kind}, {"text", event.text}};
    if (event.view) json["view"] = hex(*event.view);
    if (event.step) json["step"] = *event.step;
    return json;
}

std::vector<Event> changes(const cluster::View* before, const cluster::View& now, const cluster::Delta* led) {
    std::vector<Event> events;
    const auto add = [&](const std::string& kind, const std::string& text) {
        events.push_back(event_of(kind, text, now));
    };
    for (const cluster::MemberInfo& member : now.members) {
        const cluster::MemberInfo* was = before == nullptr ? nullptr : before->find(member.id.node);
        const std::string who = brief(member.id.node);
        if (was != nullptr && was->id != member.id) add("failed", who + " began anew");
        if (was == nullptr || was->id != member.id) {
            if (before != nullptr)
                add("joined", member.standing == cluster::Standing::active ? who + " is here" : who + " joins");
        } else if (was->standing != member.standing) {
            add("joined", member.standing == cluster::Standing::active ? who + " has the state, and trains from step " +
                                                                             std::to_string(member.first_step) + " on"
                                                                       : who + " has to pull the state again");
        }
    }
    if (before != nullptr) {
        for (const cluster::MemberInfo& member : before->members)
            if (now.find(member.id.node) == nullptr) events.push_back(departure(member.id.node, now, led));
        for (const cluster::LinkInfo& link : before->links)
            if (now.find(link.id) == nullptr && now.find(link.id.a) != nullptr && now.find(link.id.b) != nullptr)
                add("link_down", "the link between " + words_of(link.id) + " is gone");
        for (const cluster::LinkInfo& link : now.links)
            if (before->find(link.id) == nullptr && before->find(link.id.a) != nullptr &&
                before->find(link.id.b) != nullptr)
                add("link_up", words_of(link.id) + " are linked");
    }
    const bool redone = before != nullptr && now.settlement && !now.settlement->founded;
    if (redone) events.push_back(interruption(now));
    add("view", "view " + brief(now.name) + ": " + std::to_string(now.active_count()) + " train, " +
                    std::to_string(now.members.size() - now.active_count()) + " join, from step " +
                    std::to_string(now.first_step) + " on" + (redone ? "; the step in flight was settled" : "") +
                    (now.is_fork() ? "; a fork" : "") +
                    (now.fork == cluster::Fork::forced ? ", as somebody here asked" : ""));
    return events;
}

void Story::add(Event event) {
    event.time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    events_.push_back(std::move(event));
    if (events_.size() > max_events) events_.pop_front();
    tell_(events_.back());
}

void answer_events(const Story& story, const nlohmann::json& request, const Reply& reply) {
    const auto& events = story.events();
    const auto last = std::min<std::uint64_t>(request.value("last", std::uint64_t{events.size()}), events.size());
    for (std::size_t i = events.size() - last; i < events.size(); ++i) reply.send(to_json(events[i]));
    if (request.value("follow", false)) return reply.subscribe(events_topic);
    reply.end();
}

}  // namespace chaos::node
