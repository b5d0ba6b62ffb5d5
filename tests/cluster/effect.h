// What one message or command does to one member of a village: what it counts, says and changes.
#pragma once

#include "cluster/village.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::cluster {

inline NodeId node(unsigned number) {
    return Village::node(number);
}

inline bool listed(Village& village, unsigned by, unsigned number) {
    return village.member(by).view()->find(node(number)) != nullptr;
}

// The body signed in the name of `author` by the key of `signed_by`.
inline MessagePtr signed_message(Village& village, Body body, unsigned author, unsigned signed_by,
                                 std::uint32_t attempt = 1) {
    return make_signed(std::move(body), village.member(author).id(), attempt, PlainSigner(node(signed_by)));
}
inline MessagePtr signed_message(Village& village, Body body, unsigned author) {
    return signed_message(village, std::move(body), author, author);
}

// A change from a step that is far away.
inline Delta planned_change(const View& view) {
    Delta delta;
    delta.parent = view.name;
    delta.epoch = view.epoch + 1;
    delta.first_step = view.first_step + 1'000'000;
    return delta;
}

struct Effect {
    Counters risen;
    Actions actions;
    bool changed = false;  // the view, the role or the steps

    [[nodiscard]] std::uint64_t counted() const {
        return risen.malformed + risen.forged + risen.stale + risen.repeated + risen.refused;
    }
    // Everything that is sent, but heartbeats: they come in their own rhythm.
    template <class T>
    [[nodiscard]] std::vector<T> sent() const {
        std::vector<T> result;
        for (const Action& action : actions)
            if (const auto* send = std::get_if<Send>(&action))
                if (const auto* body = std::get_if<T>(&send->message->body)) result.push_back(*body);
        return result;
    }
    [[nodiscard]] bool says(const std::string& words) const {
        return std::ranges::any_of(actions, [&](const Action& action) {
            const auto* said = std::get_if<Note>(&action);
            const auto* refused = std::get_if<LinkRefused>(&action);
            return (said != nullptr && said->text.find(words) != std::string::npos) ||
                   (refused != nullptr && refused->text.find(words) != std::string::npos);
        });
    }
    // It may be said in the log, but to nobody else.
    [[nodiscard]] bool silent() const {
        return std::ranges::all_of(actions, [](const Action& action) {
            if (std::holds_alternative<Note>(action)) return true;
            const auto* send = std::get_if<Send>(&action);
            return send != nullptr && std::holds_alternative<Heartbeat>(send->message->body);
        });
    }
};

// Hands the event to a member, and sees what comes of it there; nobody else hears of that.
inline Effect hand(Village& village, unsigned to, const Event& event) {
    Member& member = village.member(to);
    const Counters before = member.counters();
    const ViewPtr view = member.view();
    const Role role = member.role();
    const std::uint64_t applied = member.applied();
    Effect effect;
    effect.actions = member.step(event, village.now);
    const Counters& after = member.counters();
    effect.risen = {.malformed = after.malformed - before.malformed,
                    .forged = after.forged - before.forged,
                    .stale = after.stale - before.stale,
                    .repeated = after.repeated - before.repeated,
                    .refused = after.refused - before.refused};
    effect.changed = member.view() != view || member.role() != role || member.applied() != applied;
    return effect;
}
inline Effect hand(Village& village, unsigned to, unsigned from, const MessagePtr& message) {
    return hand(village, to, Received{.from = node(from), .message = message});
}

// One message was refused for this cause, and nothing else happened.
inline void expect_only(const Effect& effect, std::uint64_t Counters::* cause, std::string_view what) {
    EXPECT_EQ(effect.risen.*cause, 1U) << what;
    EXPECT_EQ(effect.counted(), 1U) << what;
    EXPECT_FALSE(effect.changed) << what;
    EXPECT_TRUE(effect.silent()) << what;
}

}  // namespace chaos::cluster
