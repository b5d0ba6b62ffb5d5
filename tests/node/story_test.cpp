// The kinds of events that programs rely on (docs/control.md).
#include "node/story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace chaos::node {
namespace {

using cluster::brief;
using cluster::Delta;
using cluster::NodeId;
using cluster::Reason;
using cluster::Standing;
using cluster::View;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

NodeId node(std::uint64_t number) {
    return {.high = number << 56, .low = number};
}

// Members 1 to `count`, each linked with the one before.
View chain(std::uint64_t count) {
    View view;
    view.first_step = 7;
    for (std::uint64_t number = 1; number <= count; ++number) {
        cluster::MemberInfo member;
        member.id = {.node = node(number), .incarnation = 1};
        member.standing = Standing::active;
        view.members.push_back(member);
        if (number > 1) view.links.push_back({.id = cluster::link_between(node(number - 1), node(number))});
    }
    complete(view);
    return view;
}

std::vector<std::string> kinds(const std::vector<Event>& events) {
    std::vector<std::string> kinds;
    for (const Event& event : events) kinds.push_back(event.kind);
    return kinds;
}

std::string text_of(const std::vector<Event>& events, const std::string& kind) {
    const auto found = std::ranges::find(events, kind, &Event::kind);
    return found == events.end() ? "" : found->text;
}

TEST(Story, WhoeverGoesLeftOrFailedAndTheTextSaysWhy) {
    const View before = chain(3);
    const View now = chain(2);
    const auto told = [&](Reason reason) {
        Delta led;
        led.removals = {{.node = node(3), .reason = reason}};
        return changes(&before, now, &led);
    };
    for (const Reason reason : {Reason::failed, Reason::restarted, Reason::not_reached}) {
        EXPECT_THAT(kinds(told(reason)), ElementsAre("failed", "view"));
        EXPECT_THAT(text_of(told(reason), "failed"), HasSubstr(std::string(cluster::words_of(reason))));
    }
    for (const Reason reason :
         {Reason::left, Reason::cut_off, Reason::expelled, Reason::revoked, Reason::institution_out}) {
        EXPECT_THAT(kinds(told(reason)), ElementsAre("left", "view"));
        EXPECT_THAT(text_of(told(reason), "left"), HasSubstr(std::string(cluster::words_of(reason))));
    }
    EXPECT_THAT(kinds(changes(&before, now, nullptr)), ElementsAre("left", "view"));
}

TEST(Story, WhoBeganAnewFailedAndJoined) {
    const View before = chain(2);
    View now = before;
    now.members[1].id.incarnation = 2;
    now.members[1].standing = Standing::syncing;
    complete(now);
    EXPECT_THAT(kinds(changes(&before, now, nullptr)), ElementsAre("failed", "joined", "view"));
    EXPECT_THAT(kinds(changes(&now, before, nullptr)), ElementsAre("failed", "joined", "view"));
    View active = now;
    active.members[1].standing = Standing::active;
    complete(active);
    EXPECT_THAT(kinds(changes(&now, active, nullptr)), ElementsAre("joined", "view"));
}

TEST(Story, LinksComeAndGo) {
    const View before = chain(3);
    View now = before;
    now.links.pop_back();
    complete(now);
    EXPECT_THAT(kinds(changes(&before, now, nullptr)), ElementsAre("link_down", "view"));
    EXPECT_THAT(kinds(changes(&now, before, nullptr)), ElementsAre("link_up", "view"));
}

TEST(Story, AStepThatIsRedoneIsTold) {
    const View before = chain(3);
    View now = chain(2);
    now.settlement = cluster::Settlement{.applied = 7, .holders = {}};
    Delta led;
    led.removals = {{.node = node(3), .reason = Reason::failed}};
    const std::vector<Event> events = changes(&before, now, &led);
    EXPECT_THAT(kinds(events), ElementsAre("failed", "step", "view"));
    EXPECT_THAT(text_of(events, "step"), HasSubstr("step 7 was interrupted, and is done again"));
    EXPECT_THAT(text_of(events, "step"), Not(HasSubstr("lacks")));
    now.settlement->holders = {node(1)};
    EXPECT_THAT(text_of(changes(&before, now, &led), "step"), HasSubstr("takes it from " + brief(node(1))));
    // Nothing was interrupted where all were down, nor is the first view news of that.
    EXPECT_THAT(kinds(changes(nullptr, now, nullptr)), ElementsAre("view"));
    now.settlement->founded = true;
    EXPECT_THAT(kinds(changes(&before, now, nullptr)), ElementsAre("left", "view"));
}

}  // namespace
}  // namespace chaos::node
