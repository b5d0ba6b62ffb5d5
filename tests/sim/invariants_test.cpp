// The watcher itself is watched: it must see what a broken protocol would do.
#include "sim/invariants.h"

#include <gmock/gmock.h>

namespace chaos::sim {
namespace {

using testing::HasSubstr;

class InvariantsTest : public testing::Test {
protected:
    static constexpr Host host = 1;

    cluster::ViewPtr view(std::uint8_t name, std::uint8_t parent, std::uint64_t first_step, bool fork = false) {
        auto made = std::make_shared<cluster::View>();
        made->name[0] = name;
        made->parent[0] = parent;
        made->epoch = name;
        made->first_step = first_step;
        made->fork = fork ? cluster::Fork::waited : cluster::Fork::none;
        cluster::MemberInfo& only = made->members.emplace_back();
        only.id = member;
        only.standing = cluster::Standing::active;
        return made;
    }

    AppliedStep step(std::uint64_t number, const cluster::ViewPtr& under, std::uint32_t samples = 8) {
        Gradient gradient;
        add_samples(toy, number, ToyState(toy).parameters(), {0, samples}, gradient);
        return {.result = make_result(toy, number, under->name, toy.name, gradient),
                .how = How::exchanged,
                .state_hash = 1};
    }

    cluster::MemberId member{.node = {.high = 7, .low = host}, .incarnation = 1};
    Toy toy = make_toy(1, 8);
};

TEST_F(InvariantsTest, ASecondDecidedChildIsADisagreement) {
    Invariants invariants(toy, false);
    invariants.adopted(host, view(1, 0, 0));
    invariants.adopted(host, view(2, 1, 5));
    EXPECT_FALSE(invariants.failure());
    invariants.adopted(host, view(3, 1, 5, true));  // a fork is none
    EXPECT_FALSE(invariants.failure());
    invariants.adopted(host, view(4, 1, 5));
    ASSERT_TRUE(invariants.failure());
    EXPECT_THAT(*invariants.failure(), HasSubstr("a quorum decided"));
}

TEST_F(InvariantsTest, AStableStepIsNotDoneAgain) {
    Invariants invariants(toy, false);
    const auto first = view(1, 0, 0);
    const auto second = view(2, 1, 1);
    invariants.adopted(host, first);
    for (std::uint64_t number = 0; number < 3; ++number) invariants.applied(host, member, step(number, first));
    invariants.adopted(host, second);
    invariants.applied(host, member, step(2, second));  // only the last one was not stable yet
    EXPECT_FALSE(invariants.failure());
    invariants.applied(host, member, step(1, second));
    ASSERT_TRUE(invariants.failure());
    EXPECT_THAT(*invariants.failure(), HasSubstr("I2"));
}

TEST_F(InvariantsTest, EverySampleOnce) {
    Invariants invariants(toy, false);
    const auto only = view(1, 0, 0);
    invariants.adopted(host, only);
    invariants.applied(host, member, step(0, only, 7));
    ASSERT_TRUE(invariants.failure());
    EXPECT_THAT(*invariants.failure(), HasSubstr("I6"));
}

TEST_F(InvariantsTest, StrictCommitsUnderOneChildOnly) {
    Invariants invariants(toy, true);
    const auto root = view(1, 0, 0);
    const auto left = view(2, 1, 0);
    invariants.adopted(host, root);
    invariants.adopted(host, left);
    invariants.applied(host, member, step(0, left));
    EXPECT_FALSE(invariants.failure());
    invariants.adopted(host, view(4, 1, 0));
    EXPECT_TRUE(invariants.failure());
}

TEST_F(InvariantsTest, WhoIsNotActiveCommitsNothing) {
    Invariants invariants(toy, false);
    const auto only = view(1, 0, 0);
    invariants.adopted(host, only);
    cluster::MemberId later = member;
    later.incarnation = 2;
    invariants.applied(host, later, step(0, only));
    ASSERT_TRUE(invariants.failure());
    EXPECT_THAT(*invariants.failure(), HasSubstr("not active"));
}

TEST_F(InvariantsTest, AJoinerHasTheStateOfItsLineage) {
    Invariants invariants(toy, false);
    const auto only = view(1, 0, 0);
    invariants.adopted(host, only);
    const AppliedStep first = step(0, only);
    invariants.applied(host, member, first);
    invariants.synced(2, first.result->lineage, first.state_hash);
    EXPECT_FALSE(invariants.failure());
    invariants.synced(3, first.result->lineage, first.state_hash + 1);
    ASSERT_TRUE(invariants.failure());
    EXPECT_THAT(*invariants.failure(), HasSubstr("I5"));
}

}  // namespace
}  // namespace chaos::sim
