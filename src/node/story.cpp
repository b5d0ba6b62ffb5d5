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

}  // namespace

nlohmann::json to_json(const Event& event) {
    nlohmann::json json{{"time", event.time}, {"kind", event.kind}, {"text", event.text}};
    if (event.view) json["view"] = hex(*event.view);
    if (event.step) json["step"] = *event.step;
    return json;
}

std::vector<Event> changes(const cluster::View* before, const cluster::View& now) {
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
            if (now.find(member.id.node) == nullptr)
                add("left", brief(member.id.node) + (now.revokes(member.id.node, {}) ? " was expelled, for good"
                                                                                     : " is no longer a member"));
        for (const cluster::LinkInfo& link : before->links)
            if (now.find(link.id) == nullptr && now.find(link.id.a) != nullptr && now.find(link.id.b) != nullptr)
                add("link_down", "the link between " + words_of(link.id) + " is gone");
        for (const cluster::LinkInfo& link : now.links)
            if (before->find(link.id) == nullptr && before->find(link.id.a) != nullptr &&
                before->find(link.id.b) != nullptr)
                add("link_up", words_of(link.id) + " are linked");
    }
    const bool redone = before != nullptr && now.settlement && !now.settlement->founded;
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

}  // namespace chaos::node
