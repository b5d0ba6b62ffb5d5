#include "cluster/view.h"

#include "base/random.h"
#include "cluster/village.h"

#include <gtest/gtest.h>

namespace chaos::cluster {
namespace {

NodeId node(std::uint64_t number) {
    return {.high = number + 1, .low = 0};
}

// A ring of `count` active members with random speeds.
View ring(std::uint64_t count, std::uint64_t seed) {
    View view;
    view.name = sha256("ring");
    view.batch = 1 + random_bits(seed, 0, 0) % 500;
    view.institutions = {{.root = Village::institution()}};
    for (std::uint64_t i = 0; i < count; ++i) {
        MemberInfo member;
        member.id = {.node = node(i), .incarnation = 1};
        member.standing = Standing::active;
        member.since_epoch = random_bits(seed, 1, i) % 5;
        member.institution = Village::institution();
        member.speed = static_cast<std::uint32_t>(random_bits(seed, 2, i) % 100);
        view.members.push_back(member);
        if (count > 1 && (count > 2 || i == 0))
            view.links.push_back({.id = link_between(node(i), node((i + 1) % count))});
    }
    std::ranges::sort(view.links, {}, &LinkInfo::id);
    complete(view);
    return view;
}

void expect_exactly_once(const std::vector<Share>& shares, std::uint32_t batch) {
    std::vector<int> taken(batch, 0);
    for (const Share& share : shares)
        for (const SampleRange range : share.ranges)
            for (std::uint32_t sample = range.begin; sample < range.end; ++sample) ++taken.at(sample);
    EXPECT_TRUE(std::ranges::all_of(taken, [](int times) { return times == 1; }));
}

TEST(View, SharesCoverTheBatchExactlyOnce) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const View view = ring(1 + seed % 40, seed);
        expect_exactly_once(shares_of(view, 10), view.batch);
    }
}

TEST(View, ANewMemberBeginsWithShareZero) {
    View view = ring(3, 4);
    view.members[1].first_step = 10;
    EXPECT_TRUE(shares_of(view, 10)[1].ranges.empty());
    view.members[1].speed = 100;
    EXPECT_FALSE(shares_of(view, 11)[1].ranges.empty());
}

// All at these speeds, 0: not measured yet.
View with_speeds(std::initializer_list<std::uint32_t> speeds, std::uint32_t batch) {
    View view = ring(speeds.size(), 1);
    view.batch = batch;
    for (std::size_t i = 0; i < speeds.size(); ++i) view.members[i].speed = speeds.begin()[i];
    return view;
}

std::vector<std::uint32_t> counts_of(const View& view, std::uint64_t step) {
    std::vector<std::uint32_t> counts;
    for (const Share& share : shares_of(view, step)) {
        counts.push_back(0);
        for (const SampleRange range : share.ranges) counts.back() += range.end - range.begin;
    }
    return counts;
}

TEST(View, WhoIsNotMeasuredCountsAsTheMedian) {
    EXPECT_EQ(counts_of(with_speeds({100, 0, 100, 5, 100}, 41), 10), (std::vector<std::uint32_t>{10, 10, 10, 1, 10}));
    EXPECT_EQ(counts_of(with_speeds({0, 0, 0}, 9), 10), (std::vector<std::uint32_t>{3, 3, 3}));
}

TEST(View, WhereSamplesSufficeEverybodyHasOne) {
    EXPECT_EQ(counts_of(with_speeds({1000, 1, 1000, 2}, 10), 10), (std::vector<std::uint32_t>{4, 1, 4, 1}));
    EXPECT_EQ(counts_of(with_speeds({1000, 1, 1000, 2}, 4), 10), (std::vector<std::uint32_t>{1, 1, 1, 1}));
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        View view = ring(1 + seed % 40, seed);
        view.batch = static_cast<std::uint32_t>(view.members.size() + seed % 3);
        const std::vector<std::uint32_t> counts = counts_of(view, seed);
        EXPECT_TRUE(std::ranges::all_of(counts, [](std::uint32_t count) { return count > 0; })) << seed;
    }
}

TEST(View, WhereSamplesDoNotSufficeEverybodyHasItsTurn) {
    const View view = with_speeds({100, 100, 3, 100, 0, 100, 100}, 4);
    std::vector<std::uint32_t> all(7);
    for (std::uint64_t step = 0; step < 256; ++step) {
        expect_exactly_once(shares_of(view, step), view.batch);
        const std::vector<std::uint32_t> counts = counts_of(view, step);
        for (std::size_t i = 0; i < all.size(); ++i) all[i] += counts[i];
    }
    EXPECT_GT(all[2], 0U);
    EXPECT_LT(all[2], 16U) << "what is slow holds the others up";
    for (const std::size_t fast : {0, 1, 3, 4, 5, 6}) EXPECT_GT(all[fast], 100U) << fast;
}

TEST(View, RedoneStepsKeepWhatIsHeldAndDivideWhatIsLost) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const View before = ring(3 + seed % 20, seed);
        Delta delta;
        delta.parent = before.name;
        delta.epoch = 1;
        delta.first_step = 5;
        delta.settlement =
            Settlement{.applied = 5, .holders = {}, .founded = false, .lineage = {}, .from_joiners = false};
        delta.removals = {{.node = node(seed % before.members.size()), .reason = Reason::failed}};
        const Result<ViewPtr> after = apply(before, &before, delta);
        ASSERT_TRUE(after.ok()) << after.error().message;
        const std::vector<Share> old_shares = shares_of(before, 5);
        const std::vector<Share> shares = shares_of(**after, 5);
        expect_exactly_once(shares, before.batch);
        for (const Share& share : shares) {
            const auto held = std::ranges::find(old_shares, share.node, &Share::node);
            for (const SampleRange range : held->ranges)
                EXPECT_NE(std::ranges::find(share.ranges, range), share.ranges.end());
        }
    }
}

TEST(View, QuorumsOfOneViewAlwaysMeet) {
    for (std::uint64_t count = 1; count <= 6; ++count) {
        const View view = ring(count, count);
        const auto subset = [&](unsigned bits) {
            std::vector<NodeId> nodes;
            for (std::uint64_t i = 0; i < count; ++i)
                if ((bits >> i & 1U) != 0) nodes.push_back(node(i));
            return nodes;
        };
        for (unsigned x = 0; x < 1U << count; ++x)
            EXPECT_FALSE(is_quorum(view, subset(x)) && is_quorum(view, subset(~x)));
    }
}

TEST(View, ADeltaThatCannotFollowIsRefusedInWords) {
    const View view = ring(4, 1);
    const auto refused = [&](auto change) {
        Delta delta;
        delta.parent = view.name;
        delta.epoch = 1;
        change(delta);
        const Result<ViewPtr> next = apply(view, &view, delta);
        return !next.ok() && !next.error().message.empty();
    };
    EXPECT_FALSE(refused([](Delta&) {}));
    EXPECT_TRUE(refused([](Delta& delta) { delta.epoch = 2; }));
    EXPECT_TRUE(refused([](Delta& delta) { delta.parent = {}; }));
    EXPECT_TRUE(refused([](Delta& delta) { delta.removals = {{.node = node(9), .reason = Reason::left}}; }));
    EXPECT_TRUE(refused([](Delta& delta) { delta.activations = {{.node = node(1), .incarnation = 1}}; }));
    EXPECT_TRUE(refused([](Delta& delta) { delta.link_additions = {{.id = link_between(node(1), node(9))}}; }));
    // Two opposite members of a ring of four cannot both go: the others would be apart.
    EXPECT_TRUE(refused([](Delta& delta) {
        delta.removals = {{.node = node(0), .reason = Reason::left}, {.node = node(2), .reason = Reason::left}};
    }));
    MemberInfo stranger;
    stranger.id = {.node = node(7), .incarnation = 1};
    EXPECT_TRUE(refused([&](Delta& delta) { delta.additions = {{.info = stranger, .credential = {}, .token = {}}}; }));
}

TEST(View, AViewSurvivesItsEncoding) {
    const View view = ring(6, 9);
    const Result<ViewPtr> read = decode_view(encode(view));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(encode(**read), encode(view));
    EXPECT_EQ((*read)->senior, view.senior);
}

// Whoever is let in takes the view from one member, who may lie: what is redone is computed with.
TEST(View, RedoneSharesThatMakeNoSenseAreRefused) {
    View view = ring(3, 9);
    view.batch = 10;
    const std::vector<Share> good = {{.node = node(0), .ranges = {{.begin = 5, .end = 10}}},
                                     {.node = node(1), .ranges = {{.begin = 0, .end = 2}, {.begin = 3, .end = 5}}},
                                     {.node = node(2), .ranges = {{.begin = 2, .end = 3}}}};
    view.redo = good;
    EXPECT_TRUE(decode_view(encode(view)).ok());
    const auto refused = [&](const std::function<void(std::vector<Share>&)>& spoil) {
        view.redo = good;
        spoil(view.redo);
        return !decode_view(encode(view)).ok();
    };
    EXPECT_TRUE(refused([](auto& redo) { redo[0].ranges[0] = {.begin = 10, .end = 5}; })) << "backwards";
    EXPECT_TRUE(refused([](auto& redo) { redo[0].ranges[0] = {.begin = 5, .end = 11}; })) << "beyond the batch";
    EXPECT_TRUE(refused([](auto& redo) { redo[2].ranges.clear(); })) << "a gap";
    EXPECT_TRUE(refused([](auto& redo) { redo[2].ranges.push_back({.begin = 0, .end = 1}); })) << "twice";
    EXPECT_TRUE(refused([](auto& redo) { redo[2].ranges.push_back({.begin = 3, .end = 3}); })) << "an empty range";
    EXPECT_TRUE(refused([](auto& redo) { redo[2].node = node(7); })) << "of a stranger";
    EXPECT_TRUE(refused([](auto& redo) { std::swap(redo[0], redo[1]); })) << "out of order";
}

}  // namespace
}  // namespace chaos::cluster
