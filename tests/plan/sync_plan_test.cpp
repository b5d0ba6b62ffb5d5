#include "plan/sync_plan.h"

#include "plan/seed.h"
#include "plan/sync_oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <numeric>

namespace chaos::plan {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t mega = 1'000'000;

SyncRequest mesh(std::uint32_t members, std::uint64_t rate, std::uint64_t bytes) {
    SyncRequest request;
    request.bytes = bytes;
    for (std::uint32_t i = 0; i < members; ++i) request.members.push_back({.id = 10 + i});
    for (std::uint32_t a = 0; a < members; ++a) {
        for (std::uint32_t b = a + 1; b < members; ++b) request.links.push_back({a, b, rate, rate, 0});
    }
    return request;
}

SyncRequest cycle(std::uint32_t members, std::uint64_t rate, std::uint64_t bytes) {
    SyncRequest request;
    request.bytes = bytes;
    for (std::uint32_t i = 0; i < members; ++i) {
        request.members.push_back({.id = 10 + i});
        request.links.push_back({i, (i + 1) % members, rate, rate, 0});
    }
    return request;
}

// Ranges cover all bytes, every tree spans by links that exist, and the prediction is what the model says.
void expect_sound(const SyncRequest& request, const SyncPlan& plan) {
    std::uint64_t at = 0;
    for (const SyncTree& tree : plan.trees) {
        ASSERT_EQ(tree.first_byte, at);
        ASSERT_EQ(at % request.align_bytes, 0U);
        ASSERT_GT(tree.bytes, 0U);
        at += tree.bytes;
        ASSERT_EQ(tree.parent.size(), request.members.size());
        for (std::uint32_t i = 0; i < tree.parent.size(); ++i) {
            std::uint32_t up = i;
            for (std::size_t hops = 0; tree.parent[up] != up; ++hops) {
                ASSERT_LT(hops, tree.parent.size());
                up = tree.parent[up];
            }
            if (tree.parent[i] == i) continue;
            ASSERT_TRUE(std::any_of(request.links.begin(), request.links.end(), [&](const SyncLink& l) {
                return std::minmax(l.a, l.b) == std::minmax(i, tree.parent[i]);
            }));
        }
        const auto roots = std::count_if(tree.parent.begin(), tree.parent.end(), [&](const std::uint32_t& parent) {
            return parent == static_cast<std::uint32_t>(&parent - tree.parent.data());
        });
        ASSERT_EQ(roots, 1);
    }
    ASSERT_EQ(at, request.bytes);
    ASSERT_LE(plan.bound_ns, plan.predicted_ns);
    ASSERT_EQ(predict_sync_ns(request, plan.trees), plan.predicted_ns);
}

std::vector<test::OverlayKind> small_kinds() {
    std::vector<test::OverlayKind> kinds;
    for (const std::uint32_t members : {2U, 3U, 4U, 5U, 6U}) {
        for (const std::uint32_t extra : {0U, 2U, 4U, 6U}) {
            for (const bool equal : {false, true}) {
                for (const bool caps : {false, true}) {
                    for (const bool delays : {false, true}) kinds.push_back({members, extra, equal, caps, delays});
                }
            }
        }
    }
    return kinds;
}

TEST(SyncPlan, IsCloseToTheBestOfAllMixtures) {
    const std::uint64_t seed = test::fresh_seed();
    std::mt19937_64 random(seed);
    double worst = 0.0;
    for (const test::OverlayKind& kind : small_kinds()) {
        for (int i = 0; i < 5; ++i) {
            const SyncRequest request = test::random_sync_request(random, kind);
            const auto plan = plan_sync(request);
            ASSERT_TRUE(plan.ok()) << plan.error().message;
            ASSERT_NO_FATAL_FAILURE(expect_sound(request, *plan));
            const test::SyncOracle oracle(request);
            const double ratio = static_cast<double>(plan->predicted_ns) / oracle.best_ns();
            worst = std::max(worst, ratio);
            EXPECT_LE(ratio, 1.05) << kind.members << " members, " << request.links.size() << " links, caps "
                                   << kind.caps << ", delays " << kind.delays << ", equal " << kind.equal_rates << ", "
                                   << request.bytes << " bytes, chunk " << request.chunk_bytes << ": "
                                   << plan->reasons[0];
            EXPECT_LE(static_cast<double>(plan->bound_ns), oracle.best_ns() * (1 + 1e-6));
        }
    }
    std::cout << "worst ratio to the best mixture: " << worst << "\n";
}

TEST(SyncPlan, IsNeverSlowerThanRingOrTree) {
    const std::uint64_t seed = test::fresh_seed();
    std::mt19937_64 random(seed);
    double worst = 0.0;
    for (const test::OverlayKind& kind : small_kinds()) {
        for (int i = 0; i < 5; ++i) {
            const SyncRequest request = test::random_sync_request(random, kind);
            const auto plan = plan_sync(request);
            ASSERT_TRUE(plan.ok());
            const test::SyncOracle oracle(request);
            const double rival = std::min(oracle.best_ring_ns(), oracle.best_tree_ns());
            worst = std::max(worst, static_cast<double>(plan->predicted_ns) / rival);
            EXPECT_LE(static_cast<double>(plan->predicted_ns), rival * (1 + 1e-5))
                << kind.members << " members, " << request.links.size() << " links, caps " << kind.caps << ", delays "
                << kind.delays << ", equal " << kind.equal_rates << ", tree " << oracle.best_tree_ns() << ", ring "
                << oracle.best_ring_ns() << ": " << plan->reasons[0];
        }
    }
    std::cout << "worst ratio to the better of ring and tree: " << worst << "\n";
}

TEST(SyncPlan, AloneNothingTravels) {
    SyncRequest request;
    request.bytes = 1000;
    request.members.push_back({.id = 7});
    const auto plan = plan_sync(request);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->shape, SyncShape::alone);
    EXPECT_EQ(plan->trees, (std::vector<SyncTree>{{0, 1000, {0}}}));
    EXPECT_EQ(plan->predicted_ns, 0U);
}

TEST(SyncPlan, NothingToReduceIsAnEmptyPlan) {
    const auto plan = plan_sync(mesh(4, mega, 0));
    ASSERT_TRUE(plan.ok());
    EXPECT_TRUE(plan->trees.empty());
}

TEST(SyncPlan, ACycleOfEqualLinksIsARing) {
    const SyncRequest request = cycle(8, 100 * mega, 800 * mega);
    const auto plan = plan_sync(request);
    ASSERT_TRUE(plan.ok());
    ASSERT_NO_FATAL_FAILURE(expect_sound(request, *plan));
    EXPECT_EQ(plan->shape, SyncShape::ring);
    EXPECT_EQ(plan->trees.size(), 8U);
    // Seven eighths of 8 s, and filling the pipeline.
    EXPECT_LT(plan->predicted_ns, 7'050 * mega);
}

TEST(SyncPlan, AMeshOfEqualLinksIsUsedEvenly) {
    const SyncRequest request = mesh(6, 100 * mega, 600 * mega);
    const auto plan = plan_sync(request);
    ASSERT_TRUE(plan.ok());
    ASSERT_NO_FATAL_FAILURE(expect_sound(request, *plan));
    // Each link lies in two of six stars.
    EXPECT_LT(plan->predicted_ns, 2'030 * mega);
    EXPECT_LT(plan->predicted_ns, plan->bound_ns + plan->bound_ns / 50);
}

TEST(SyncPlan, SmallMessagesTakeFewHops) {
    SyncRequest request = mesh(6, 100 * mega, 1000);
    for (SyncLink& link : request.links) link.delay_ns = 10 * mega;
    const auto plan = plan_sync(request);
    ASSERT_TRUE(plan.ok());
    EXPECT_LT(plan->predicted_ns, 20'100'000U);  // up and down once
}

TEST(SyncPlan, ASlowMemberBehindOneLinkSetsThePace) {
    SyncRequest request = mesh(5, 1000 * mega, 100 * mega);
    request.members.push_back({.id = 3});
    request.links.push_back({5, 0, mega, 10 * mega, 0});
    const auto plan = plan_sync(request);
    ASSERT_TRUE(plan.ok());
    ASSERT_NO_FATAL_FAILURE(expect_sound(request, *plan));
    EXPECT_LT(plan->predicted_ns, 102'000 * mega);
    EXPECT_GE(plan->bound_ns, 100'000 * mega);
    EXPECT_THAT(plan->reasons.back(), HasSubstr("joins members 3 and 10"));
}

TEST(SyncPlan, IsTheSameInWhateverOrderItIsAsked) {
    const std::uint64_t seed = test::fresh_seed();
    std::mt19937_64 random(seed);
    for (const std::uint32_t members : {3U, 6U, 12U, 30U, 150U}) {
        const SyncRequest request =
            test::random_sync_request(random, {members, 2 * members, members % 2 == 0, members == 6, true});
        const auto plan = plan_sync(request);
        ASSERT_TRUE(plan.ok());
        std::vector<std::uint32_t> place(members);
        std::iota(place.begin(), place.end(), 0U);
        std::shuffle(place.begin(), place.end(), random);
        SyncRequest other = request;
        for (std::uint32_t i = 0; i < members; ++i) other.members[place[i]] = request.members[i];
        std::shuffle(other.links.begin(), other.links.end(), random);
        for (SyncLink& link : other.links) {
            link.a = place[link.a];
            link.b = place[link.b];
            if (random() % 2 == 0) {
                std::swap(link.a, link.b);
                std::swap(link.a_to_b_bytes_per_s, link.b_to_a_bytes_per_s);
            }
        }
        const auto again = plan_sync(other);
        ASSERT_TRUE(again.ok());
        EXPECT_EQ(plan->hash, again->hash);
        EXPECT_EQ(plan->predicted_ns, again->predicted_ns);
        ASSERT_EQ(plan->trees.size(), again->trees.size());
        for (std::size_t t = 0; t < plan->trees.size(); ++t) {
            for (std::uint32_t i = 0; i < members; ++i) {
                ASSERT_EQ(place[plan->trees[t].parent[i]], again->trees[t].parent[place[i]]);
            }
        }
    }
}

// Members must agree on plans across compilers and machines. Who changes the planner on purpose raises its version and
// notes the new hashes here.
TEST(SyncPlan, IsTheSameBitsEverywhere) {
    struct Golden {
        std::uint32_t members;
        bool caps;
        std::uint64_t hash;
        std::uint64_t predicted_ns;
    };
    for (const Golden& golden :
         {Golden{1, false, 12498025331984995493U, 0}, Golden{4, false, 12380904029199616201U, 105787475408},
          Golden{7, true, 5149913602198381065U, 17492705039}, Golden{8, false, 4018090591524446113U, 2944700059},
          Golden{16, true, 2963112508040982707U, 23899547839}, Golden{60, false, 13637835556194052584U, 723690786},
          Golden{200, true, 7604897269799408451U, 11571146580}}) {
        std::mt19937_64 random(golden.members);
        const auto plan = plan_sync(
            test::random_sync_request(random, {golden.members, 3 * golden.members, false, golden.caps, true}));
        ASSERT_TRUE(plan.ok());
        EXPECT_EQ(plan->hash, golden.hash) << golden.members << " members";
        EXPECT_EQ(plan->predicted_ns, golden.predicted_ns) << golden.members << " members";
    }
}

TEST(SyncPlan, LargeOverlaysAreSoundToo) {
    const std::uint64_t seed = test::fresh_seed();
    std::mt19937_64 random(seed);
    for (const std::uint32_t members : {9U, 16U, 17U, 40U, 100U, 129U, 300U}) {
        for (const bool caps : {false, true}) {
            const SyncRequest request = test::random_sync_request(random, {members, 3 * members, false, caps, true});
            const auto plan = plan_sync(request);
            ASSERT_TRUE(plan.ok());
            ASSERT_NO_FATAL_FAILURE(expect_sound(request, *plan));
        }
    }
}

TEST(SyncPlan, HugeValuesNeitherOverflowNorHang) {
    for (const std::uint64_t rate : {std::uint64_t{1}, unlimited}) {
        for (const std::uint64_t delay : {std::uint64_t{0}, unlimited}) {
            SyncRequest request = mesh(5, rate, std::uint64_t{1} << 50);
            request.chunk_bytes = unlimited;
            for (SyncLink& link : request.links) link.delay_ns = delay;
            request.members[2].egress_bytes_per_s = 1;
            request.links[3].a_to_b_bytes_per_s = 1;
            const auto plan = plan_sync(request);
            ASSERT_TRUE(plan.ok());
            EXPECT_LE(plan->predicted_ns, longest_ns);
        }
    }
}

TEST(SyncPlan, RefusesInWords) {
    const auto message = [](const SyncRequest& request) { return plan_sync(request).error().message; };
    EXPECT_THAT(message({}), HasSubstr("no member"));
    SyncRequest request = mesh(3, mega, mega);
    request.links.pop_back();
    request.links[0].b_to_a_bytes_per_s = 0;
    EXPECT_THAT(message(request), HasSubstr("in pieces: no path of usable links leads from member 10 to member 11"));
    request = mesh(3, mega, mega);
    request.members[1].id = 10;
    EXPECT_THAT(message(request), HasSubstr("member 10 is listed twice"));
    request = mesh(3, mega, mega);
    request.links.push_back({1, 0, mega, mega, 0});
    EXPECT_THAT(message(request), HasSubstr("have two links"));
    request = mesh(3, mega, mega);
    request.links[0].b = 3;
    EXPECT_THAT(message(request), HasSubstr("not listed"));
    request.links[0].b = 0;
    EXPECT_THAT(message(request), HasSubstr("link to itself"));
    request = mesh(3, mega, mega);
    request.members[2].ingress_bytes_per_s = 0;
    EXPECT_THAT(message(request), HasSubstr("its cap is 0"));
}

}  // namespace
}  // namespace chaos::plan
