#include "plan/shard_plan.h"

#include "base/random.h"
#include "plan/seed.h"
#include "plan/shard_oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <map>
#include <set>

namespace chaos::plan {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t mega = 1'000'000;
constexpr std::uint64_t giga = 1'000'000'000;

ShardRequest simple(std::uint64_t state_bytes, const std::vector<std::uint64_t>& rates) {
    ShardRequest request;
    request.state_bytes = state_bytes;
    ShardJoiner joiner;
    joiner.id = 1000;
    for (std::uint64_t i = 0; i < rates.size(); ++i) {
        request.donors.push_back({.id = i + 1});
        joiner.links.push_back({.donor = i + 1, .bytes_per_s = rates[i], .delay_ns = 0});
    }
    request.joiners.push_back(joiner);
    return request;
}

// Every missing shard comes exactly once, no limit breaks, and the last arrives when predicted.
void expect_sound(const ShardRequest& request, const ShardPlan& plan) {
    const std::uint64_t size = plan.shard_bytes;
    std::map<std::uint64_t, std::uint64_t> sent;  // bytes by donor
    std::uint64_t last_ns = 0;
    for (const ShardJoiner& joiner : request.joiners) {
        std::set<std::uint64_t> got;
        for (const Transfer& transfer : plan.transfers) {
            if (transfer.joiner != joiner.id) continue;
            std::uint64_t shards = 0;
            for (const ShardRange& range : transfer.ranges) {
                ASSERT_GT(range.count, 0U);
                shards += range.count;
                for (std::uint64_t k = 0; k < range.count; ++k) ASSERT_TRUE(got.insert(range.first + k).second);
                const std::uint64_t end = std::min((range.first + range.count) * size, request.state_bytes);
                sent[transfer.donor] += end - range.first * size;
            }
            ASSERT_EQ(shards, transfer.shards);
            const auto link = std::find_if(joiner.links.begin(), joiner.links.end(),
                                           [&](const ShardLink& l) { return l.donor == transfer.donor; });
            ASSERT_NE(link, joiner.links.end());
            last_ns = std::max(last_ns, transfer.predicted_ns);
        }
        for (std::uint64_t k = 0; k * size < request.state_bytes; ++k) {
            const std::uint64_t end = std::min((k + 1) * size, request.state_bytes);
            bool held = true;
            for (std::uint64_t at = k * size; at < end && held; ++at) {
                held = std::any_of(joiner.held.begin(), joiner.held.end(),
                                   [&](const ByteRange& h) { return at >= h.first && at < h.first + h.bytes; });
            }
            ASSERT_NE(held, got.contains(k)) << "shard " << k << " of joiner " << joiner.id;
        }
    }
    ASSERT_LE(last_ns, plan.predicted_ns);
    ASSERT_LE(plan.limit_ns, plan.predicted_ns);
    for (const ShardDonor& donor : request.donors) ASSERT_LE(sent[donor.id], donor.limit_bytes);
}

TEST(ShardPlan, IsAsGoodAsTheBestOfAllAssignments) {
    const std::uint64_t seed = test::fresh_seed();
    std::mt19937_64 random(seed);
    int planned = 0;
    for (int i = 0; i < 3000; ++i) {
        const ShardRequest request = test::random_shard_request(random, i % 3 == 0);
        const auto plan = plan_shards(request);
        const auto best = test::ShardOracle(request).best_ns();
        ASSERT_EQ(plan.ok(), best.has_value()) << "instance " << i << (plan.ok() ? "" : plan.error().message);
        if (!plan.ok()) continue;
        ++planned;
        ASSERT_EQ(plan->predicted_ns, *best) << "instance " << i;
        ASSERT_NO_FATAL_FAILURE(expect_sound(request, *plan)) << "instance " << i;
    }
    EXPECT_GT(planned, 1000);
}

TEST(ShardPlan, DonorsShareByTheirRates) {
    const ShardRequest request = simple(300 * 65536, {200 * mega, 100 * mega});
    const auto plan = plan_shards(request);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    ASSERT_EQ(plan->shard_bytes, 4 * 65536U);  // the coarsest of those that can be shared 2 : 1
    ASSERT_EQ(plan->transfers.size(), 2U);
    EXPECT_EQ(plan->transfers[0].ranges, (std::vector<ShardRange>{{0, 50}}));
    EXPECT_EQ(plan->transfers[1].ranges, (std::vector<ShardRange>{{50, 25}}));
    EXPECT_EQ(plan->predicted_ns, 65'536'000U);
    EXPECT_EQ(plan->limit_ns, 65'536'000U);
    EXPECT_FALSE(plan->reasons.empty());
}

TEST(ShardPlan, OverheadMakesShardsLarger) {
    ShardRequest request = simple(giga, {100 * mega, 90 * mega});
    for (ShardDonor& donor : request.donors) donor.overhead_ns = 2 * mega;
    const auto plan = plan_shards(request);
    ASSERT_TRUE(plan.ok());
    EXPECT_GT(plan->shard_bytes, 65536U);
    EXPECT_THAT(plan->reasons[0], HasSubstr("the finest (64 KiB) would take"));
}

TEST(ShardPlan, TheOrderOfTheRequestDoesNotMatter) {
    const std::uint64_t seed = test::fresh_seed();
    std::mt19937_64 random(seed);
    for (int i = 0; i < 200; ++i) {
        ShardRequest request = test::random_shard_request(random, true);
        const auto plan = plan_shards(request);
        std::shuffle(request.donors.begin(), request.donors.end(), random);
        std::shuffle(request.joiners.begin(), request.joiners.end(), random);
        for (ShardJoiner& joiner : request.joiners) {
            std::shuffle(joiner.links.begin(), joiner.links.end(), random);
            std::shuffle(joiner.held.begin(), joiner.held.end(), random);
        }
        const auto again = plan_shards(request);
        ASSERT_EQ(plan.ok(), again.ok());
        if (!plan.ok()) continue;
        ASSERT_EQ(plan->shard_bytes, again->shard_bytes);
        ASSERT_EQ(plan->transfers, again->transfers);
        ASSERT_EQ(plan->reasons, again->reasons);
    }
}

// As SyncPlan.IsTheSameBitsEverywhere: joiners and donors compute it on different machines.
TEST(ShardPlan, IsTheSameBitsEverywhere) {
    std::mt19937_64 random(1);
    std::vector<std::uint64_t> words;
    for (int i = 0; i < 200; ++i) {
        const auto plan = plan_shards(test::random_shard_request(random, i % 2 == 0));
        if (!plan.ok()) continue;
        words.insert(words.end(), {plan->shard_bytes, plan->predicted_ns, plan->limit_ns});
        for (const Transfer& transfer : plan->transfers) {
            words.insert(words.end(), {transfer.joiner, transfer.donor, transfer.predicted_ns});
            for (const ShardRange& range : transfer.ranges) words.insert(words.end(), {range.first, range.count});
        }
    }
    std::uint64_t hash = 0;
    for (const std::uint64_t word : words) hash = random_bits(hash, 0, word);
    EXPECT_EQ(hash, 2039873098641903434U);
}

TEST(ShardPlan, ARateOfZeroIsNoLink) {
    const auto plan = plan_shards(simple(10 * mega, {0, 50 * mega}));
    ASSERT_TRUE(plan.ok());
    ASSERT_EQ(plan->transfers.size(), 1U);
    EXPECT_EQ(plan->transfers[0].donor, 2U);
    EXPECT_THAT(plan->reasons.back(), HasSubstr("donor 1 sends nothing: no usable link"));
}

TEST(ShardPlan, AFarDonorThatCannotHelpSendsNothing) {
    ShardRequest request = simple(10 * mega, {100 * mega, 100 * mega});
    request.joiners[0].links[1].delay_ns = giga;
    const auto plan = plan_shards(request);
    ASSERT_TRUE(plan.ok());
    ASSERT_EQ(plan->transfers.size(), 1U);
    EXPECT_THAT(plan->reasons.back(), HasSubstr("donor 2 sends nothing: the others are done"));
}

TEST(ShardPlan, IngressBindsAndIsNamed) {
    ShardRequest request = simple(giga, {giga, giga});
    request.joiners[0].ingress_bytes_per_s = 10 * mega;
    const auto plan = plan_shards(request);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->predicted_ns, 100 * giga);
    EXPECT_EQ(plan->limit_ns, 100 * giga);
    EXPECT_THAT(plan->reasons[2], HasSubstr("ingress of joiner 1000"));
}

TEST(ShardPlan, MendsAPlanWithWhatHasArrived) {
    ShardRequest request = simple(100 * 65536, {100 * mega, 100 * mega});
    const auto first = plan_shards(request);
    ASSERT_TRUE(first.ok());
    // Donor 1 dies after ten shards; of donor 2's all but the last arrived.
    hold(request.joiners[0].held, {0, 10 * 65536});
    hold(request.joiners[0].held, {50 * 65536, 49 * 65536});
    request.donors.erase(request.donors.begin());
    const auto second = plan_shards(request);
    ASSERT_TRUE(second.ok());
    ASSERT_EQ(second->transfers.size(), 1U);
    EXPECT_EQ(second->transfers[0].donor, 2U);
    std::uint64_t bytes = 0;
    for (const ShardRange& range : second->transfers[0].ranges) bytes += range.count * second->shard_bytes;
    EXPECT_EQ(bytes, 41U * 65536);
}

TEST(ShardPlan, NothingMissingIsDone) {
    ShardRequest request = simple(mega, {});
    request.joiners[0].held.push_back({0, mega});
    const auto plan = plan_shards(request);
    ASSERT_TRUE(plan.ok());
    EXPECT_TRUE(plan->transfers.empty());
    EXPECT_EQ(plan->predicted_ns, 0U);
    EXPECT_TRUE(plan_shards(simple(0, {mega})).ok());
}

TEST(ShardPlan, HugeValuesNeitherOverflowNorHang) {
    ShardRequest request = simple(std::uint64_t{1} << 50, {unlimited, 1});
    request.donors[0].overhead_ns = unlimited;
    request.joiners[0].links[1].delay_ns = unlimited;
    EXPECT_THAT(plan_shards(request).error().message, HasSubstr("too slow"));
    request.donors[0].overhead_ns = 0;
    const auto plan = plan_shards(request);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(plan->predicted_ns, 4 * giga);  // 2^48 bytes per second are the fastest that a plan believes
    request = simple(std::uint64_t{1} << 50, {1});
    EXPECT_FALSE(plan_shards(request).ok());
}

TEST(ShardPlan, RefusesInWords) {
    const auto message = [](const ShardRequest& request) { return plan_shards(request).error().message; };
    EXPECT_THAT(message(simple(mega, {})), HasSubstr("no donor"));
    EXPECT_THAT(message(simple(mega, {0})), HasSubstr("no usable link"));
    ShardRequest request = simple(mega, {mega});
    request.joiners.clear();
    EXPECT_THAT(message(request), HasSubstr("no joiner"));
    request = simple(mega, {mega, mega});
    for (ShardDonor& donor : request.donors) donor.limit_bytes = 400'000;
    EXPECT_THAT(message(request), HasSubstr("limits are too small"));
    for (ShardDonor& donor : request.donors) donor.limit_bytes = 520'000;
    EXPECT_THAT(message(request), HasSubstr("in whole shards"));
    request = simple(mega, {mega});
    request.joiners[0].ingress_bytes_per_s = 0;
    EXPECT_THAT(message(request), HasSubstr("accepts no bytes"));
    request = simple(mega, {mega});
    request.donors.push_back({.id = 1});
    EXPECT_THAT(message(request), HasSubstr("donor 1 is listed twice"));
    request = simple(mega, {mega});
    request.joiners.push_back(request.joiners[0]);
    EXPECT_THAT(message(request), HasSubstr("joiner 1000 is listed twice"));
    request = simple(mega, {mega});
    request.joiners[0].links.push_back(request.joiners[0].links[0]);
    EXPECT_THAT(message(request), HasSubstr("two links to donor 1"));
    request = simple(mega, {mega});
    request.shard_sizes = {4, 6};
    EXPECT_THAT(message(request), HasSubstr("each divide the next"));
    request = simple(mega, {mega});
    request.joiners[0].held.push_back({mega, 1});
    EXPECT_THAT(message(request), HasSubstr("beyond the state's end"));
}

TEST(Hold, KeepsRangesAscendingAndDisjoint) {
    const std::uint64_t seed = test::fresh_seed();
    std::mt19937_64 random(seed);
    for (int i = 0; i < 300; ++i) {
        std::vector<ByteRange> held;
        std::set<std::uint64_t> bytes;
        for (int k = 0; k < 12; ++k) {
            const ByteRange range{random() % 60, random() % 9};
            hold(held, range);
            for (std::uint64_t at = 0; at < range.bytes; ++at) bytes.insert(range.first + at);
        }
        std::set<std::uint64_t> got;
        for (std::size_t k = 0; k < held.size(); ++k) {
            if (k > 0) {
                ASSERT_GT(held[k].first, held[k - 1].first + held[k - 1].bytes);
            }
            for (std::uint64_t at = 0; at < held[k].bytes; ++at) got.insert(held[k].first + at);
        }
        ASSERT_EQ(got, bytes);
    }
}

}  // namespace
}  // namespace chaos::plan
