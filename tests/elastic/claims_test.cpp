#include "elastic/claims.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace chaos::elastic {
namespace {

using cluster::NodeId;
using std::chrono::seconds;

constexpr Claims::Clock::time_point start{};

NodeId node(std::uint64_t number) {
    return {.high = number, .low = 1};
}

cluster::Name name(std::uint8_t byte) {
    cluster::Name name{};
    name.fill(byte);
    return name;
}

const std::vector<NodeId> three = {node(0), node(1), node(2)};

TEST(Claims, ALineageIsWhatMostNameAndNotOne) {
    Claims claims;
    claims.settled(node(0), 7, name(9), start);
    EXPECT_FALSE(claims.lineage_after(7, three));
    claims.settled(node(1), 7, name(1), start);
    EXPECT_FALSE(claims.lineage_after(7, three));
    claims.settled(node(2), 7, name(1), start);
    EXPECT_EQ(claims.lineage_after(7, three), name(1));
    EXPECT_FALSE(claims.lineage_after(8, three));
    claims.forget(node(2));
    EXPECT_FALSE(claims.lineage_after(7, three));
}

TEST(Claims, OneThatSaysMuchDoesNotDriveOutWhatOthersSaid) {
    Claims claims;
    claims.settled(node(0), 7, name(1), start);
    claims.settled(node(1), 7, name(1), start);
    for (std::uint64_t step = 0; step < 10 * Claims::kept_of_each; ++step)
        claims.settled(node(2), 1'000'000 + step, name(9), start);
    EXPECT_EQ(claims.lineage_after(7, three), name(1));
}

TEST(Claims, AsFarAsMostAreIsNotWhatOneSays) {
    Claims claims;
    EXPECT_EQ(claims.reached_by_most(three), 0U);
    claims.reached(node(0), std::numeric_limits<std::uint64_t>::max(), start);
    EXPECT_EQ(claims.reached_by_most(three), 0U);
    claims.reached(node(1), 10, start);
    EXPECT_EQ(claims.reached_by_most(three), 10U);
    claims.reached(node(2), 11, start);
    EXPECT_EQ(claims.reached_by_most(three), 11U);
    EXPECT_EQ(claims.reached_by_most(std::vector{node(1), node(2)}), 10U);
    EXPECT_EQ(claims.reached_by_most({}), 0U);
}

TEST(Claims, WhatMostDenyAfterwardsIsOfTheFuture) {
    Claims claims;
    claims.reached(node(0), 5000, start);
    claims.reached(node(1), 10, start);
    claims.reached(node(2), 10, start);
    EXPECT_FALSE(claims.most_are_behind(5000, start, three)) << "they may have been there since";
    claims.reached(node(1), 12, start + seconds(2));
    EXPECT_FALSE(claims.most_are_behind(5000, start, three));
    claims.reached(node(2), 12, start + seconds(2));
    EXPECT_TRUE(claims.most_are_behind(5000, start, three));
    EXPECT_FALSE(claims.most_are_behind(12 + Claims::most_apart_steps, start, three));
    EXPECT_FALSE(claims.most_are_behind(3, start, three));
}

TEST(Claims, OneOfTwoCannotAccuseTheOther) {
    Claims claims;
    const std::vector<NodeId> two = {node(0), node(1)};
    claims.settled(node(0), 100, name(1), start + seconds(2));
    claims.settled(node(1), 5, name(9), start + seconds(2));
    EXPECT_FALSE(claims.most_are_behind(100, start, two));
    EXPECT_FALSE(claims.lineage_after(100, two));
}

}  // namespace
}  // namespace chaos::elastic
