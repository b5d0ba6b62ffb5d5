// What happens to a node, for people and programs: events with a kind and a sentence (docs/control.md), the last ones
// of which are remembered.
#pragma once

#include "cluster/view.h"
#include "node/control.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace chaos::node {

struct Event {
    double time = 0.0;  // seconds since 1970
    std::string kind;
    std::string text;
    std::optional<cluster::Name> view = {};
    std::optional<std::uint64_t> step = {};
};

[[nodiscard]] nlohmann::json to_json(const Event& event);

// What is different in `now`, one event each; `before` is null where this is the first view that a node knows. `led` is
// what led to `now`; null: not known, and then not why somebody is gone either.
[[nodiscard]] std::vector<Event> changes(const cluster::View* before, const cluster::View& now,
                                         const cluster::Delta* led);

class Story {
public:
    explicit Story(std::function<void(const Event&)> tell) : tell_(std::move(tell)) {}

    void add(Event event);
    [[nodiscard]] const std::deque<Event>& events() const { return events_; }

private:
    static constexpr std::size_t max_events = 1000;
    std::function<void(const Event&)> tell_;
    std::deque<Event> events_;
};

// The answer to {"command": "events", ...}; those that follow are published on this topic.
inline constexpr const char* events_topic = "events";
void answer_events(const Story& story, const nlohmann::json& request, const Reply& reply);

}  // namespace chaos::node
