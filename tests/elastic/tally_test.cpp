#include "elastic/tally.h"

#include <gtest/gtest.h>

#include <limits>

namespace chaos::elastic {
namespace {

using cluster::NodeId;

NodeId node(std::uint64_t number) {
    return {.high = number, .low = 1};
}

// Active members, the first of whom has been there longest.
cluster::View view_of(std::size_t count) {
    cluster::View view;
    for (std::uint64_t i = 0; i < count; ++i) {
        cluster::MemberInfo member;
        member.id.node = node(i);
        member.standing = cluster::Standing::active;
        member.since_epoch = i;
        view.members.push_back(member);
        ++view.active;
    }
    return view;
}

// As an all-reduce would: everybody's own, summed.
Tally tally_of(const std::vector<Contribution>& members, std::uint64_t step = 0) {
    std::vector<float> sum(tally_floats);
    for (std::size_t place = 0; place < members.size(); ++place) {
        std::vector<float> own(tally_floats);
        write_tally(own, slot_of(place, members.size(), step), members[place], std::nullopt);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    }
    return read_tally(sum);
}

Contribution with_state(std::uint64_t state) {
    return {.samples = 4.0, .loss = 1.0, .norm = 1.0, .state = state};
}

TEST(Tally, SaysWhatEachMemberSaid) {
    constexpr std::uint64_t all_bits = (std::uint64_t{1} << 48) - 1;
    const Tally tally = tally_of({{.samples = 6.0, .loss = 2.0, .norm = 3.0, .state = all_bits},
                                  {.samples = 2.0, .loss = 4.0, .norm = 5.0, .state = 77}});
    EXPECT_DOUBLE_EQ(tally.samples, 8.0);
    EXPECT_DOUBLE_EQ(tally.loss, 2.5);
    EXPECT_DOUBLE_EQ(tally.slots[1].norm, 5.0);
    EXPECT_EQ(tally.slots[0].state, all_bits);
    EXPECT_EQ(tally.slots[1].state, 77U);
}

TEST(Tally, TheFewWithAnotherStateAreAstray) {
    const Tally tally = tally_of({with_state(5), with_state(9), with_state(9)});
    EXPECT_EQ(astray(tally, view_of(3), 0), std::vector{node(0)});
}

TEST(Tally, OfTwoTheLongerStandingIsRight) {
    EXPECT_EQ(astray(tally_of({with_state(5), with_state(9)}), view_of(2), 0), std::vector{node(1)});
}

TEST(Tally, WhoTellsNoStateIsNotAstray) {
    EXPECT_TRUE(astray(tally_of({with_state(5), with_state(0), with_state(5)}), view_of(3), 0).empty());
}

// Most of them have none of their own in a step, and states are told every few steps only.
TEST(Tally, OfMoreMembersThanSlotsEverybodyIsLookedAtInTurn) {
    for (const std::size_t members : {own_slots + 1, 10 * own_slots}) {
        const cluster::View view = view_of(members);
        std::vector<Contribution> many(members, with_state(5));
        for (const std::size_t wrong : {std::size_t{0}, members / 2, members - 1}) {
            many[wrong].state = 6;
            many[wrong].norm = std::numeric_limits<double>::quiet_NaN();
            std::size_t astrays = 0;
            std::size_t offences = 0;
            for (std::uint64_t step = 0; step < 1000; step += 10) {
                const Tally tally = tally_of(many, step);
                EXPECT_TRUE(culprit_of(tally, view, step));
                for (const NodeId found : astray(tally, view, step)) astrays += found == node(wrong) ? 1 : 1000;
                for (const NodeId found : offenders_of(tally, view, step)) offences += found == node(wrong) ? 1 : 1000;
            }
            EXPECT_GT(astrays, 2U);
            EXPECT_LE(astrays, 100U);
            EXPECT_EQ(offences, astrays);
            many[wrong] = with_state(5);
        }
        const Tally all = tally_of(many, 7);
        EXPECT_DOUBLE_EQ(all.samples, 4.0 * static_cast<double>(members));
        EXPECT_DOUBLE_EQ(all.loss, 1.0);
    }
}

Contribution with_norm(double norm) {
    return {.samples = 4.0, .loss = 1.0, .norm = norm};
}
constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

TEST(Tally, WhoContributesWhatNobodyElseFoundOffends) {
    EXPECT_TRUE(offenders_of(tally_of({with_norm(1.0), with_norm(2.0), with_norm(900.0)}), view_of(3), 0).empty());
    for (const double norm : {no_number, 5000.0}) {
        const Tally tally = tally_of({with_norm(1.0), with_norm(norm), with_norm(2.0)});
        EXPECT_EQ(offenders_of(tally, view_of(3), 0), std::vector{node(1)});
        EXPECT_EQ(culprit_of(tally, view_of(3), 0), node(1));
    }
}

TEST(Tally, WhereMostFoundNothingSoundNobodyOffends) {
    const Tally sick = tally_of({with_norm(no_number), with_norm(no_number), with_norm(1.0)});
    EXPECT_EQ(culprit_of(sick, view_of(3), 0), node(0));
    EXPECT_TRUE(offenders_of(sick, view_of(3), 0).empty());
    EXPECT_TRUE(offenders_of(tally_of({with_norm(no_number)}), view_of(1), 0).empty());
    // Nor of two; and who had nothing to compute says nothing.
    EXPECT_TRUE(offenders_of(tally_of({with_norm(1.0), with_norm(no_number)}), view_of(2), 0).empty());
    EXPECT_TRUE(offenders_of(tally_of({with_norm(no_number), with_norm(1.0), {}}), view_of(3), 0).empty());
}

TEST(Tally, WhatIsNoNumberIsNoState) {
    std::vector<float> floats(tally_floats, std::numeric_limits<float>::quiet_NaN());
    EXPECT_EQ(read_tally(floats).slots[0].state, 0U);
}

TEST(Tally, WhatCountsNothingIsNoEvaluation) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float none = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> floats(tally_floats);
    const std::span<float> end = std::span(floats).last(3);
    for (const float targets : {none, infinity, -infinity, 3e38F, -1.0F, 0.5F}) {
        end[0] = end[1] = end[2] = targets;
        EXPECT_FALSE(read_tally(floats).held_out) << targets;
    }
    for (const float correct : {none, infinity, -infinity, 3e38F, -1.0F}) {
        end[0] = 8.0F;
        end[1] = correct;
        end[2] = 4.0F;
        const Tally tally = read_tally(floats);
        ASSERT_TRUE(tally.held_out);
        EXPECT_FALSE(tally.held_out->correct) << correct;
        EXPECT_EQ(tally.held_out->targets, 4U);
        EXPECT_DOUBLE_EQ(tally.held_out->loss, 2.0);
    }
}

std::optional<NodeId> culprit_among(const std::vector<double>& norms) {
    std::vector<Contribution> members;
    for (const double norm : norms) members.push_back({.samples = 4.0, .loss = 1.0, .norm = norm, .state = 0});
    return culprit_of(tally_of(members), view_of(norms.size()), 0);
}

TEST(Tally, WhoFindsHardlyAnythingMakesNobodyACulprit) {
    EXPECT_FALSE(culprit_among({0.0, 3.0}));
    EXPECT_FALSE(culprit_among({1e-9, 3.0}));
    EXPECT_FALSE(culprit_among({3.0, 1e-9}));
    EXPECT_FALSE(culprit_among({0.0, 0.0, 3.0}));
    EXPECT_FALSE(culprit_among({0.0, 0.0, 0.0}));
}

TEST(Tally, WhoIsFarBeyondTheOthersIsTheCulprit) {
    EXPECT_EQ(culprit_among({3.0, 5.0, 1e5}), node(2));
    EXPECT_EQ(culprit_among({3.0, 1e5}), node(1));
    EXPECT_EQ(culprit_among({1e-9, 1e5}), node(1));
    EXPECT_EQ(culprit_among({3.0, std::numeric_limits<double>::quiet_NaN()}), node(1));
}

}  // namespace
}  // namespace chaos::elastic
