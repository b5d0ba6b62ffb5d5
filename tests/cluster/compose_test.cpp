#include "cluster/compose.h"

#include "cluster/village.h"

#include <gtest/gtest.h>

namespace chaos::cluster {
namespace {

// A line of active members, n0 - n1 - n2 - ..., that have all agreed to begin at step 0.
View chain(unsigned count) {
    View view;
    view.name = sha256("chain");
    view.epoch = 3;
    view.institutions = {{.root = Village::institution()}};
    for (unsigned i = 0; i < count; ++i) {
        MemberInfo member;
        member.id = {.node = Village::node(i), .incarnation = 1};
        member.standing = Standing::active;
        member.institution = Village::institution();
        view.members.push_back(member);
        if (i > 0) view.links.push_back({.id = link_between(Village::node(i - 1), Village::node(i))});
    }
    complete(view);
    return view;
}

std::map<NodeId, Report> reports_of(const View& view, const std::vector<std::uint64_t>& applied) {
    std::map<NodeId, Report> reports;
    for (std::size_t i = 0; i < applied.size(); ++i) {
        Report& report = reports[view.members[i].id.node];
        report.member = view.members[i].id;
        report.applied = applied[i];
    }
    return reports;
}

std::vector<NodeId> removed_by(const Delta& delta) {
    std::vector<NodeId> nodes;
    for (const Removal& removal : delta.removals) nodes.push_back(removal.node);
    return nodes;
}

TEST(Settlement, KeepsTheResultThatOneMemberHas) {
    const View view = chain(3);
    const Result<Delta> delta = compose_settlement(view, Village::node(0), reports_of(view, {7, 7, 8}), {}, Fork::none);
    ASSERT_TRUE(delta) << delta.error().message;
    EXPECT_EQ(delta->settlement->applied, 8U);
    EXPECT_EQ(delta->settlement->holders, std::vector{Village::node(2)});
    EXPECT_TRUE(delta->removals.empty());
}

TEST(Settlement, LosesAResultWhoseHolderHangsOnOneWhoOnlySyncsAgain) {
    View view = chain(3);
    view.members[1].first_step = 9;  // was to begin later: it syncs again, and relays nothing
    const Result<Delta> delta = compose_settlement(view, Village::node(0), reports_of(view, {7, 7, 8}), {}, Fork::none);
    ASSERT_TRUE(delta) << delta.error().message;
    EXPECT_EQ(delta->settlement->applied, 7U);
    EXPECT_EQ(removed_by(*delta), std::vector{Village::node(2)});
}

TEST(Settlement, LeavesOutThoseBehindDeadLinks) {
    const View view = chain(5);
    const std::vector<LinkId> down{link_between(Village::node(1), Village::node(2))};
    const Result<Delta> delta =
        compose_settlement(view, Village::node(0), reports_of(view, {7, 7, 7, 7, 7}), down, Fork::none);
    ASSERT_TRUE(delta) << delta.error().message;
    // The larger part goes on, without the proposer.
    EXPECT_EQ(removed_by(*delta), (std::vector{Village::node(0), Village::node(1)}));
}

TEST(Figures, AgreeWithinAQuarterWhateverTheirSize) {
    EXPECT_TRUE(
        agrees({.rate_ab = 0, .rate_ba = 120, .delay_us = 80}, {.rate_ab = 9, .rate_ba = 100, .delay_us = 100}));
    EXPECT_FALSE(agrees({.rate_ab = 126}, {.rate_ab = 100}));
    EXPECT_FALSE(agrees({.rate_ab = 1}, {.rate_ab = 0xffffffffU}));
}

}  // namespace
}  // namespace chaos::cluster
