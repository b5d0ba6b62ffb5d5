#include "cluster/ancestry.h"

#include <gmock/gmock.h>

namespace chaos::cluster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Optional;

View view(std::uint8_t name, std::uint8_t parent, Fork fork = Fork::none, bool founded = false) {
    View made;
    made.name[0] = name;
    made.parent[0] = parent;
    made.epoch = name;
    made.fork = fork;
    if (founded) made.settlement = Settlement{.applied = 0, .holders = {}, .founded = true};
    return made;
}

TEST(Ancestry, AQuorumDecidesOneChild) {
    Ancestry ancestry(false);
    EXPECT_FALSE(ancestry.adopted(view(1, 0)));
    EXPECT_FALSE(ancestry.adopted(view(2, 1)));
    EXPECT_FALSE(ancestry.adopted(view(3, 1, Fork::waited)));
    EXPECT_FALSE(ancestry.adopted(view(4, 3)));
    EXPECT_TRUE(ancestry.on_fork(view(4, 3).name));
    EXPECT_FALSE(ancestry.on_fork(view(2, 1).name));
    EXPECT_EQ(ancestry.forks(), 1U);
    EXPECT_THAT(ancestry.adopted(view(5, 1)), Optional(HasSubstr("a quorum decided that view 2")));
}

TEST(Ancestry, StrictForbidsForks) {
    Ancestry ancestry(true);
    EXPECT_FALSE(ancestry.adopted(view(1, 0)));
    EXPECT_THAT(ancestry.adopted(view(2, 1, Fork::waited)), Optional(HasSubstr("the policy is strict")));
}

TEST(Ancestry, AForkThatAPersonForcedIsALineOfItsOwn) {
    Ancestry ancestry(true);
    for (const View& next : {view(1, 0), view(2, 1), view(3, 1, Fork::forced), view(4, 3)})
        EXPECT_FALSE(ancestry.adopted(next));
    EXPECT_FALSE(ancestry.committed(view(2, 1).name, 7));
    EXPECT_FALSE(ancestry.committed(view(4, 3).name, 7));
    // Within each line, nothing is forgiven.
    EXPECT_TRUE(ancestry.adopted(view(5, 3)));
    EXPECT_FALSE(ancestry.committed(view(3, 1).name, 6));
    EXPECT_TRUE(ancestry.on_fork(view(4, 3).name));
    EXPECT_THAT(ancestry.committed(view(5, 3).name, 7), Optional(HasSubstr("which both follow view 3")));
}

TEST(Ancestry, AStableStepIsFoundOutInAnyOrder) {
    for (const bool late : {false, true}) {
        Ancestry ancestry(false);
        for (const View& next : {view(1, 0), view(2, 1), view(3, 2)}) EXPECT_FALSE(ancestry.adopted(next));
        const Name first = view(1, 0).name;
        const Name third = view(3, 2).name;
        EXPECT_FALSE(ancestry.committed(late ? third : first, late ? 3 : 4));
        EXPECT_THAT(ancestry.committed(late ? first : third, late ? 4 : 3), Optional(HasSubstr("I2")));
        EXPECT_FALSE(ancestry.committed(first, 3));
    }
}

TEST(Ancestry, WhatWasSaidToBeStableCounts) {
    Ancestry ancestry(false);
    EXPECT_FALSE(ancestry.adopted(view(1, 0)));
    EXPECT_FALSE(ancestry.adopted(view(2, 1)));
    ancestry.stable(view(1, 0).name, 5);
    EXPECT_FALSE(ancestry.committed(view(2, 1).name, 5));
    EXPECT_THAT(ancestry.committed(view(2, 1).name, 4),
                Optional(AllOf(HasSubstr("I2: step 4"), HasSubstr("stable under view 1"))));
}

TEST(Ancestry, AFoundingCountsFromItsCheckpoint) {
    Ancestry ancestry(false);
    EXPECT_FALSE(ancestry.adopted(view(1, 0)));
    EXPECT_FALSE(ancestry.adopted(view(2, 1, Fork::none, true)));
    EXPECT_FALSE(ancestry.adopted(view(3, 2)));
    EXPECT_FALSE(ancestry.committed(view(1, 0).name, 9));
    EXPECT_FALSE(ancestry.committed(view(3, 2).name, 2));
    EXPECT_FALSE(ancestry.committed(view(1, 0).name, 10));
    EXPECT_EQ(ancestry.foundings(), 1U);
}

TEST(Ancestry, StrictCommitsUnderOneChild) {
    Ancestry ancestry(true);
    for (const View& next : {view(1, 0), view(2, 1), view(3, 2)}) EXPECT_FALSE(ancestry.adopted(next));
    EXPECT_TRUE(ancestry.adopted(view(4, 1)));
    EXPECT_FALSE(ancestry.committed(view(3, 2).name, 7));
    EXPECT_THAT(ancestry.committed(view(4, 1).name, 7), Optional(HasSubstr("which both follow view 1")));
}

}  // namespace
}  // namespace chaos::cluster
