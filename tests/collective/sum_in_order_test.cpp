#include "collective/sum_in_order.h"

#include "base/random.h"
#include "collective/network.h"
#include "plan/seed.h"
#include "plan/sync_oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace chaos::collective {
namespace {

using test::Holder;
using test::Network;

// Numbers whose sum depends on the order, with a few that are none.
std::vector<float> contribution(std::mt19937_64& random, std::uint64_t floats) {
    std::vector<float> values(floats);
    for (float& value : values) {
        value = std::ldexp(random_unit(random()) - 0.5F, static_cast<int>(random() % 40));
        if (random() % 500 == 0) value = std::numeric_limits<float>::infinity();
        if (random() % 500 == 0) value = -std::numeric_limits<float>::infinity();
        if (random() % 500 == 0) value = std::numeric_limits<float>::quiet_NaN();
        if (random() % 100 == 0) value = -0.0F;
    }
    return values;
}

void expect_bits_of_the_engine(const plan::SyncPlan& plan, std::uint32_t count, std::uint64_t floats,
                               const ScheduleOptions& options, std::mt19937_64& random) {
    SCOPED_TRACE(::testing::Message() << "members " << count << " floats " << floats << " trees " << plan.trees.size());
    const std::vector<NodeId> members = test::some_nodes(count, random());
    Network network({.seed = random(), .streams = 2});
    std::vector<std::vector<float>> parts;
    std::vector<std::shared_ptr<Holder>> holders;
    for (const NodeId node : members) {
        network.add(node);
        parts.push_back(contribution(random, floats));
        holders.push_back(test::hold(parts.back()));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto schedule = test::schedule_for(plan, members, members[i], options);
        ASSERT_TRUE(network.at(members[i]).engine->begin({1, 0}, schedule, test::vectors_of(holders[i])).ok());
    }
    network.run();

    const Result<SumOrder> order = sum_order_of(plan, members, options);
    ASSERT_TRUE(order.ok()) << order.error().message;
    std::vector<float> result(floats, -1.0F);
    sum_in_order(*order, parts, result);
    for (std::uint32_t i = 0; i < count; ++i) {
        ASSERT_TRUE(std::holds_alternative<Complete>(network.at(members[i]).outcomes.at({1, 0})));
        ASSERT_TRUE(test::same_bits(holders[i]->output, result)) << "member " << i;
    }
}

TEST(SumInOrder, AnyTreesGiveTheBitsOfTheEngine) {
    std::mt19937_64 random(plan::test::fresh_seed());
    for (int round = 0; round < 200; ++round) {
        const auto members = 1 + static_cast<std::uint32_t>(random() % 9);
        constexpr std::uint64_t sizes[] = {0, 1, 7, 129, 1000, 5003};
        const std::uint64_t floats = sizes[random() % 6];
        ScheduleOptions options{.chunk_bytes = 512U << random() % 4,
                                .window_chunks = 1 + static_cast<std::uint32_t>(random() % 5)};
        if (random() % 2 == 0) options.parts = test::random_parts(random, floats);
        expect_bits_of_the_engine(test::random_plan(random, members, floats), members, floats, options, random);
        if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST(SumInOrder, PlansOfThePlannerGiveTheBitsOfTheEngine) {
    std::mt19937_64 random(plan::test::fresh_seed());
    for (int round = 0; round < 60; ++round) {
        const auto members = 1 + static_cast<std::uint32_t>(random() % 9);
        const std::uint64_t floats = 1 + random() % 20000;
        auto request = plan::test::random_sync_request(
            random, {.members = members, .extra = static_cast<std::uint32_t>(random() % 20)});
        request.bytes = floats * 4;
        request.align_bytes = 64;
        request.chunk_bytes = 2048;
        const auto plan = plan::plan_sync(request);
        ASSERT_TRUE(plan.ok()) << plan.error().message;
        expect_bits_of_the_engine(*plan, members, floats, {.chunk_bytes = 2048, .window_chunks = 3}, random);
        if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST(SumInOrder, WhatCannotBeSummedIsRefusedInWords) {
    const std::vector<NodeId> members = test::some_nodes(3, 1);
    EXPECT_THAT(sum_order_of(test::star_plan(3, 10), members, {.encoding = Encoding::int8}).error().message,
                ::testing::HasSubstr("int8"));
    EXPECT_THAT(sum_order_of(test::star_plan(4, 10), members, {}).error().message,
                ::testing::HasSubstr("no tree over the 3 members"));
}

}  // namespace
}  // namespace chaos::collective
