#include "collective/schedule.h"

#include "collective/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::collective {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr NodeId a{.high = 1, .low = 0};
constexpr NodeId b{.high = 2, .low = 0};
constexpr NodeId c{.high = 3, .low = 0};

TEST(Schedule, KnowsItsPlaceInEachTreeAndCutsChunks) {
    plan::SyncPlan plan = test::star_plan(3, 300, 1);
    plan.trees.push_back({1200, 40, {0, 0, 1}});
    const std::vector<NodeId> members{c, b, a};
    const auto schedule = make_schedule(plan, members, b, {.encoding = Encoding::int8, .chunk_bytes = 1024});
    ASSERT_TRUE(schedule.ok()) << schedule.error().message;
    ASSERT_EQ(schedule->branches.size(), 2U);
    EXPECT_FALSE(schedule->branches[0].parent.has_value());
    EXPECT_THAT(schedule->branches[0].children, ElementsAre(a, c));  // in order of ids, not of indexes
    EXPECT_EQ(schedule->branches[0].chunks, 2U);
    EXPECT_EQ(schedule->branches[1].parent, c);
    EXPECT_THAT(schedule->branches[1].children, ElementsAre(a));
    EXPECT_EQ(schedule->floats, 310U);
    EXPECT_EQ(schedule->floats_of(0, 1).first, 256U);
    EXPECT_EQ(schedule->floats_of(0, 1).count, 44U);
    EXPECT_EQ(schedule->bytes_of(0, 1).first, 264U);
    EXPECT_EQ(schedule->bytes_of(0, 1).count, 48U);
    EXPECT_EQ(schedule->bytes_of(1, 0).first, 312U);
    EXPECT_EQ(schedule->result_bytes, 312U + 16U);  // 14, and 2 so that a float could follow
    EXPECT_EQ(schedule->slot_bytes, 264U);
    // Two chunks from each of two children; one chunk from one child and one to the parent.
    EXPECT_EQ(schedule->max_staging_bytes(), 264U * (2 * 2 + 1 * 2));
}

TEST(Schedule, HashIsTheSameHoweverMembersAreListedAndDiffersWithAllThatMatters) {
    plan::SyncPlan plan = test::star_plan(3, 300, 0);
    plan.trees[0].parent = {0, 0, 1};
    const std::vector<NodeId> members{a, b, c};
    plan::SyncPlan other = plan;
    other.trees[0].parent = {1, 2, 2};
    const std::vector<NodeId> backwards{c, b, a};
    const std::uint64_t hash = make_schedule(plan, members, a, {})->hash;
    EXPECT_EQ(make_schedule(plan, members, b, {})->hash, hash);
    EXPECT_EQ(make_schedule(other, backwards, c, {})->hash, hash);
    EXPECT_NE(make_schedule(plan, backwards, a, {})->hash, hash);
    EXPECT_NE(make_schedule(plan, members, a, {.view = 1})->hash, hash);
    EXPECT_NE(make_schedule(plan, members, a, {.encoding = Encoding::bf16})->hash, hash);
    EXPECT_NE(make_schedule(plan, members, a, {.chunk_bytes = 512})->hash, hash);
    EXPECT_NE(make_schedule(plan, members, a, {.window_chunks = 5})->hash, hash);
    plan.hash ^= 1;
    EXPECT_NE(make_schedule(plan, members, a, {})->hash, hash);
}

TEST(Schedule, RefusesPlansThatMakeNoSense) {
    const std::vector<NodeId> members{a, b, c};
    const auto why = [&](const plan::SyncPlan& plan) { return make_schedule(plan, members, a, {}).error().message; };
    plan::SyncPlan plan = test::star_plan(3, 10);
    plan.trees[0].bytes = 42;
    EXPECT_THAT(why(plan), HasSubstr("cuts a float"));
    plan = test::star_plan(3, 10);
    plan.trees[0].first_byte = 4;
    EXPECT_THAT(why(plan), HasSubstr("leaves a gap"));
    for (const std::vector<std::uint32_t>& parent :
         std::vector<std::vector<std::uint32_t>>{{0, 0}, {0, 1, 0}, {0, 2, 1}, {1, 2, 0}, {0, 3, 0}, {0, 0, 0, 0}}) {
        plan = test::star_plan(3, 10);
        plan.trees[0].parent = parent;
        EXPECT_THAT(why(plan), HasSubstr("is no tree over the 3 members"));
    }
    plan = test::star_plan(3, 10);
    EXPECT_FALSE(make_schedule(plan, members, {.high = 9, .low = 9}, {}).ok());
    EXPECT_FALSE(make_schedule(plan, std::vector<NodeId>{a, a, b}, a, {}).ok());
    for (const std::uint32_t chunk_bytes : {0U, 4U, 513U, max_chunk_bytes + 512})
        EXPECT_FALSE(make_schedule(plan, members, a, {.chunk_bytes = chunk_bytes}).ok());
    for (const std::uint32_t window : {0U, max_window_chunks + 1})
        EXPECT_FALSE(make_schedule(plan, members, a, {.window_chunks = window}).ok());
}

TEST(Schedule, AResultOfAnotherSizeIsNotDecoded) {
    const std::vector<NodeId> members{a};
    const auto schedule = make_schedule(test::star_plan(1, 10), members, a, {});
    std::vector<float> result(10);
    EXPECT_FALSE(decode_result(*schedule, std::vector<std::byte>(39), result).ok());
    EXPECT_TRUE(decode_result(*schedule, std::vector<std::byte>(40), result).ok());
}

plan::SyncRequest three_members(std::uint64_t bytes, std::uint64_t bytes_per_s, std::uint64_t delay_ns) {
    plan::SyncRequest request;
    request.bytes = bytes;
    request.members = {{.id = 0}, {.id = 1}, {.id = 2}};
    for (const auto& [from, to] : {std::pair{0U, 1U}, {0U, 2U}, {1U, 2U}})
        request.links.push_back({.a = from,
                                 .b = to,
                                 .a_to_b_bytes_per_s = bytes_per_s,
                                 .b_to_a_bytes_per_s = bytes_per_s,
                                 .delay_ns = delay_ns});
    request.chunk_bytes = fit_chunk_bytes(request);
    return request;
}

TEST(Schedule, ChunksFitTheVectorAndTheLinks) {
    EXPECT_EQ(three_members(16'000'000, 1'250'000, 0).chunk_bytes, 16U << 10);
    EXPECT_EQ(three_members(64 << 20, 1'250'000, 0).chunk_bytes, 64U << 10);
    EXPECT_EQ(three_members(1'000, 1'250'000, 0).chunk_bytes, 16U << 10);
    EXPECT_EQ(three_members(1ULL << 40, 1'250'000, 0).chunk_bytes, 256U << 10);
    EXPECT_EQ(three_members(64 << 20, 2'000'000'000, 0).chunk_bytes, 256U << 10);
}

TEST(Schedule, AWindowCoversTheWayUpAndDown) {
    const auto window_ns = [](const plan::SyncRequest& request) {
        const auto plan = plan::plan_sync(request);
        const std::uint64_t window = fit_window_chunks(request, *plan);
        std::uint64_t longest = 0;
        for (const plan::SyncTree& tree : plan->trees) longest = std::max(longest, tree.bytes);
        return plan::mul_div(plan->predicted_ns, window * request.chunk_bytes, longest);
    };
    // There and back over a link, at least; but not much more than it needs.
    EXPECT_GT(window_ns(three_members(64 << 20, 1'250'000, 50'000'000)), 100'000'000U);
    EXPECT_LT(window_ns(three_members(64 << 20, 1'250'000, 50'000'000)), 2'000'000'000U);
    EXPECT_LT(window_ns(three_members(64 << 20, 1'250'000, 0)), 1'000'000'000U);
    // Never more than memory allows.
    const plan::SyncRequest fast = three_members(1ULL << 30, 2'000'000'000, 500'000'000);
    EXPECT_EQ(fit_window_chunks(fast, *plan::plan_sync(fast)), 64U);
}

TEST(Schedule, SmallTreesHaveSmallWindows) {
    plan::SyncPlan plan = test::star_plan(3, 100 * 128, 0);
    plan.trees.push_back({.first_byte = plan.trees[0].bytes, .bytes = plan.trees[0].bytes / 2, .parent = {0, 0, 0}});
    plan.trees.push_back({.first_byte = plan.trees[0].bytes / 2 * 3, .bytes = 512, .parent = {0, 0, 0}});
    const std::vector<NodeId> members{a, b, c};
    const auto schedule = make_schedule(plan, members, a, {.chunk_bytes = 512, .window_chunks = 20});
    ASSERT_TRUE(schedule.ok()) << schedule.error().message;
    EXPECT_EQ(schedule->branches[0].window_chunks, 20U);
    EXPECT_EQ(schedule->branches[1].window_chunks, 10U);
    EXPECT_EQ(schedule->branches[2].window_chunks, 4U);
}

}  // namespace
}  // namespace chaos::collective
