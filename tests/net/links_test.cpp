#include "net/links.h"

#include "net/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

namespace chaos::net {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string up(const Site& site) {
    return "up " + cluster::brief(site.id);
}

// Two sites with a link.
struct Pair {
    asio::io_context loop;
    Site a;
    Site b;
    explicit Pair(const LinkOptions& options = {})
        : a(loop, Site::institution_key(), options), b(loop, Site::institution_key(), options) {
        a.links.dial(b.id, b.address);
        EXPECT_TRUE(a.wait([&] { return !a.events.empty() && !b.events.empty(); }));
    }
};

TEST(Links, CarryMessagesBothWays) {
    Pair pair;
    EXPECT_THAT(pair.a.events, ElementsAre(up(pair.b)));
    EXPECT_THAT(pair.b.events, ElementsAre(up(pair.a)));
    const std::vector<std::uint8_t> hello{1, 2, 3};
    const std::vector<std::uint8_t> large(3 << 20, 7);
    EXPECT_TRUE(pair.a.links.send(pair.b.id, hello));
    EXPECT_TRUE(pair.a.links.send(pair.b.id, large));
    EXPECT_TRUE(pair.a.links.send(pair.b.id, hello));
    EXPECT_TRUE(pair.b.links.send(pair.a.id, hello));
    EXPECT_TRUE(pair.a.wait([&] { return pair.b.messages.size() == 3 && pair.a.messages.size() == 1; }));
    EXPECT_THAT(pair.b.messages, ElementsAre(hello, large, hello));
    EXPECT_THAT(pair.a.messages, ElementsAre(hello));
    EXPECT_FALSE(pair.a.links.send(NodeId{.high = 1, .low = 1}, hello));
}

// Its receiver would drop the link, and both would make it again for the same message.
TEST(Links, RefuseAMessageLongerThanAFrame) {
    Pair pair;
    EXPECT_FALSE(pair.a.links.send_work(pair.b.id, std::vector<std::uint8_t>(max_control_bytes, 7)));
    const std::vector<std::uint8_t> hello{1, 2, 3};
    EXPECT_TRUE(pair.a.links.send(pair.b.id, hello));
    EXPECT_TRUE(pair.a.wait([&] { return !pair.b.messages.empty(); }));
    EXPECT_EQ(pair.b.events.size(), 1U);
}

// Whoever answers where nobody in particular was dialled is named, though there is a link with it already; whichever of
// the two connections stays.
TEST(Links, WhoAnswersIsToldThoughThereIsALinkAlready) {
    Pair pair;
    pair.a.links.dial({}, pair.b.address);
    ASSERT_TRUE(pair.a.wait([&] { return pair.a.events.size() == 2; }));
    EXPECT_EQ(pair.a.events.back(), "answered " + cluster::brief(pair.b.id));
    pair.b.links.dial({}, pair.a.address);
    ASSERT_TRUE(pair.a.wait([&] { return pair.b.events.size() == 2; }));
    EXPECT_EQ(pair.b.events.back(), "answered " + cluster::brief(pair.a.id));
    EXPECT_TRUE(pair.a.links.linked(pair.b.id) && pair.b.links.linked(pair.a.id));
}

TEST(Links, MeasureTheRoundTrip) {
    Pair pair;
    ASSERT_TRUE(pair.a.links.ping(pair.b.id));
    ASSERT_TRUE(pair.a.wait([&] { return pair.a.links.figures(pair.b.id).round_trip.count() > 0; }));
    EXPECT_LT(pair.a.links.figures(pair.b.id).round_trip, std::chrono::seconds(5));
}

TEST(Links, CarryBulkInOrderAndWaitForAReceiverThatIsNotReady) {
    Pair pair;
    pair.b.not_ready = true;
    const auto data = std::make_shared<std::vector<std::byte>>(600'000, std::byte{5});
    for (std::uint32_t i = 0; i < 100; ++i) {
        const BulkHead head{.kind = BulkKind::gradients,
                            .bytes = 600'000,
                            .first = 7,
                            .second = 8,
                            .third = i,
                            .fourth = i % 10 == 9 ? 99U : 1U};
        ASSERT_TRUE(pair.a.links.send_bulk(pair.b.id, head, *data, 0, data));
    }
    // The first frame is at the door; nothing passes it.
    ASSERT_TRUE(pair.a.links.ping(pair.b.id));
    ASSERT_TRUE(pair.a.wait([&] { return pair.a.links.figures(pair.b.id).round_trip.count() > 0; }));
    EXPECT_TRUE(pair.b.heads.empty());
    pair.b.not_ready = false;
    pair.b.links.resume(pair.a.id);
    ASSERT_TRUE(pair.a.wait([&] {
        pair.b.links.resume(pair.a.id);
        return pair.b.heads.size() == 90;
    }));
    std::uint32_t expected = 0;
    for (const BulkHead& head : pair.b.heads) {
        if (expected % 10 == 9) ++expected;
        EXPECT_EQ(head.third, expected++);
    }
    EXPECT_EQ(pair.b.payload_bytes, 90U * 600'000);
}

// A full receiver is not a dead one.
TEST(Links, AReceiverMayWaitForLong) {
    constexpr std::chrono::milliseconds limit{200};
    Pair pair(LinkOptions{.longest_without_bulk = limit});
    const auto data = std::make_shared<std::vector<std::byte>>(max_bulk_bytes);
    const auto send = [&](std::uint32_t i) {
        return pair.a.links.send_bulk(pair.b.id, {.bytes = max_bulk_bytes, .third = i}, *data, 0, data);
    };
    // The connection for it stands, so that it is not waited for.
    ASSERT_TRUE(send(0));
    ASSERT_TRUE(pair.a.wait([&] { return pair.b.heads.size() == 1; }));
    pair.b.not_ready = true;
    for (std::uint32_t i = 1; i <= 50; ++i) ASSERT_TRUE(send(i));
    const auto begun = Clock::now();
    ASSERT_TRUE(pair.a.wait([&] { return Clock::now() > begun + 10 * limit; }));
    pair.b.not_ready = false;
    ASSERT_TRUE(pair.a.wait([&] {
        pair.b.links.resume(pair.a.id);
        return pair.b.heads.size() == 51;
    }));
    ASSERT_TRUE(pair.a.wait([&] { return pair.a.links.figures(pair.b.id).bulk_sent_bytes >= 51 * max_bulk_bytes; }));
    EXPECT_EQ(pair.a.links.figures(pair.b.id).bulk_sent_bytes, 51 * max_bulk_bytes) << "something was sent again";
}

// What is short leaves at once where nothing waits, and must not overtake what could not leave completely.
TEST(Links, ShortAndLongFramesKeepTheirOrderWhenTheOtherEndIsSlow) {
    for (const bool clear : {false, true}) {
        asio::io_context loop;
        LinkOptions options{.bulk_connections = 1, .in_the_clear = clear, .clear_id = {.high = 1, .low = 1}};
        Site a(loop, Site::institution_key(), options);
        options.clear_id = {.high = 1, .low = 2};
        Site b(loop, Site::institution_key(), options);
        const NodeId to = clear ? options.clear_id : b.id;
        const NodeId from = clear ? NodeId{.high = 1, .low = 1} : a.id;
        a.links.dial(to, b.address);
        ASSERT_TRUE(a.wait([&] { return a.links.linked(to) && b.links.linked(from); }));
        b.not_ready = true;
        std::uint64_t sum = 0;
        constexpr std::uint32_t frames = 4000;
        for (std::uint32_t i = 0; i < frames; ++i) {
            const std::uint32_t size = i % 50 == 0 ? 40'000 : 1 + i * 97 % 16'000;
            const auto data = std::make_shared<std::vector<std::byte>>(size, static_cast<std::byte>(i));
            for (const std::byte byte : *data) sum = sum * 31 + static_cast<std::uint64_t>(byte);
            ASSERT_TRUE(a.links.send_bulk(to, {.bytes = size, .third = i}, *data, 0, data));
            loop.restart();
            if (i % 3 == 0) loop.poll();
        }
        b.not_ready = false;
        ASSERT_TRUE(a.wait([&] {
            b.links.resume(from);
            return b.heads.size() == frames;
        }));
        for (std::uint32_t i = 0; i < frames; ++i) ASSERT_EQ(b.heads[i].third, i);
        EXPECT_EQ(b.sum, sum);
    }
}

TEST(Links, GradientsOvertakeState) {
    Pair pair(LinkOptions{.bulk_connections = 1});
    const auto data = std::make_shared<std::vector<std::byte>>(1 << 20);
    for (std::uint32_t i = 0; i < 64; ++i)
        pair.a.links.send_bulk(pair.b.id, {.kind = BulkKind::state, .bytes = 1 << 20, .third = i}, *data, 0, data);
    ASSERT_TRUE(pair.a.wait([&] { return !pair.b.heads.empty(); }));
    pair.a.links.send_bulk(pair.b.id, {.kind = BulkKind::gradients, .bytes = 1 << 20}, *data, 0, data);
    ASSERT_TRUE(pair.a.wait([&] { return pair.b.heads.size() == 65; }));
    const auto at = std::ranges::find(pair.b.heads, BulkKind::gradients, &BulkHead::kind);
    EXPECT_LT(at - pair.b.heads.begin(), 32);
}

TEST(Links, GradientsWithoutEndLeaveStateItsShare) {
    Pair pair(LinkOptions{.bulk_connections = 1, .state_share_percent = 20});
    const auto data = std::make_shared<std::vector<std::byte>>(64 << 10);
    const auto send = [&](BulkKind kind) {
        pair.a.links.send_bulk(pair.b.id, {.kind = kind, .bytes = 64 << 10}, *data, any_lane, data);
    };
    for (int i = 0; i < 160; ++i) send(BulkKind::gradients);
    for (int i = 0; i < 20; ++i) send(BulkKind::state);
    ASSERT_TRUE(pair.a.wait([&] { return pair.b.heads.size() == 180; }));
    const auto state_in = [&](std::ptrdiff_t frames) {
        return std::count_if(pair.b.heads.begin(), pair.b.heads.begin() + frames,
                             [](const BulkHead& head) { return head.kind == BulkKind::state; });
    };
    EXPECT_EQ(state_in(50), 10);
    EXPECT_EQ(state_in(100), 20);
}

// A member that is behind gets what it lacks, although gradients of the next step stand at its door.
TEST(Links, ResultsPassWhileGradientsWait) {
    Pair pair;
    pair.b.not_ready = true;
    const auto data = std::make_shared<std::vector<std::byte>>(1 << 20);
    for (std::uint32_t i = 0; i < 64; ++i) pair.a.links.send_bulk(pair.b.id, {.bytes = 1 << 20}, *data, any_lane, data);
    pair.a.links.send_bulk(pair.b.id, {.kind = BulkKind::results, .bytes = 1 << 20}, *data, any_lane, data);
    ASSERT_TRUE(pair.a.wait([&] { return !pair.b.heads.empty(); }));
    EXPECT_EQ(pair.b.heads.front().kind, BulkKind::results);
}

// On a slow line a frame is long on its way: that it is, can be seen.
TEST(Links, ResultsAreSeenComing) {
    Pair pair(LinkOptions{.max_send_bytes_per_s = 300'000});
    const auto data = std::make_shared<std::vector<std::byte>>(max_bulk_bytes);
    const BulkHead head{.kind = BulkKind::results, .bytes = max_bulk_bytes};
    ASSERT_TRUE(pair.a.links.send_bulk(pair.b.id, head, *data, any_lane, data));
    std::set<std::uint64_t> seen;
    ASSERT_TRUE(pair.a.wait([&] {
        if (pair.b.heads.empty()) seen.insert(pair.b.links.figures(pair.a.id).results_coming);
        return seen.size() > 5 || !pair.b.heads.empty();
    }));
    EXPECT_TRUE(pair.b.heads.empty());
}

TEST(Links, CancelledResultsDoNotLeave) {
    Pair pair(LinkOptions{.max_send_bytes_per_s = 30'000'000});
    const auto data = std::make_shared<std::vector<std::byte>>(max_bulk_bytes);
    for (const std::uint64_t number : {1, 1, 1, 1, 1, 1, 2})
        ASSERT_TRUE(pair.a.links.send_bulk(
            pair.b.id, {.kind = BulkKind::results, .bytes = max_bulk_bytes, .first = number}, *data, any_lane, data));
    pair.a.links.cancel_results(pair.b.id, 1);
    ASSERT_TRUE(pair.a.wait([&] { return !pair.b.heads.empty() && pair.b.heads.back().first == 2; }));
    EXPECT_LE(pair.b.heads.size(), 2U);
}

TEST(Links, AnyConnectionThatIsFreeTakesFramesOfNoLane) {
    Pair pair;
    pair.b.not_ready = true;
    const auto data = std::make_shared<std::vector<std::byte>>(1 << 20);
    // Lane 0 stands still with more than its connection holds; what belongs to no lane goes round it.
    for (std::uint32_t i = 0; i < 32; ++i) pair.a.links.send_bulk(pair.b.id, {.bytes = 1 << 20}, *data, 0, data);
    for (std::uint32_t i = 0; i < 8; ++i)
        pair.a.links.send_bulk(pair.b.id, {.bytes = 1 << 20, .third = i, .fourth = 99}, *data, any_lane, data);
    EXPECT_TRUE(
        pair.a.wait([&] { return pair.b.links.figures(pair.a.id).bulk_received_bytes == std::size_t{8} << 20; }));
}

TEST(Links, SendNoMoreThanTheyMay) {
    constexpr std::uint64_t most_per_s = 8 << 20;
    asio::io_context loop;
    Site a(loop, Site::institution_key(), LinkOptions{.max_send_bytes_per_s = most_per_s});
    Site b(loop);
    Site c(loop);
    a.links.dial(b.id, b.address);
    a.links.dial(c.id, c.address);
    ASSERT_TRUE(a.wait([&] { return a.links.linked(b.id) && a.links.linked(c.id); }));
    const auto data = std::make_shared<std::vector<std::byte>>(64 << 10);
    const auto begun = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < 64; ++i) {
        for (const NodeId to : {b.id, c.id})
            a.links.send_bulk(to, {.kind = BulkKind::state, .bytes = 64 << 10, .third = i}, *data, any_lane, data);
    }
    ASSERT_TRUE(a.wait([&] { return b.heads.size() == 64 && c.heads.size() == 64; }));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    // 8 MB in a second; until both links are counted, each may send as if it were alone.
    EXPECT_GT(took.count(), 0.7);
}

TEST(Links, LetGoOfPayloadsOnceTheyArrived) {
    Pair pair;
    auto data = std::make_shared<std::vector<std::byte>>(1 << 20);
    for (std::uint32_t i = 0; i < 64; ++i)
        pair.a.links.send_bulk(pair.b.id, {.kind = BulkKind::state, .bytes = 1 << 20, .third = i}, *data, i, data);
    ASSERT_TRUE(pair.a.wait([&] { return pair.b.heads.size() == 64; }));
    EXPECT_TRUE(pair.a.wait([&] { return data.use_count() <= 10; })) << data.use_count();
}

TEST(Links, BothMayDialAtOnce) {
    for (int round = 0; round < 20; ++round) {
        asio::io_context loop;
        Site a(loop);
        Site b(loop);
        a.links.dial(b.id, b.address);
        b.links.dial(a.id, a.address);
        const auto connected = [&] { return a.links.linked(b.id) && b.links.linked(a.id); };
        ASSERT_TRUE(a.wait(connected));
        // Messages get through, whichever connection stayed.
        const std::vector<std::uint8_t> text{1};
        ASSERT_TRUE(a.wait([&] {
            if (!connected()) return false;
            if (a.messages.empty()) b.links.send(a.id, text);
            if (b.messages.empty()) a.links.send(b.id, text);
            return !a.messages.empty() && !b.messages.empty();
        }));
        EXPECT_THAT(a.events, ElementsAre(up(b)));
        EXPECT_THAT(b.events, ElementsAre(up(a)));
    }
}

TEST(Links, AWrongNodeOrNobodyAtTheAddressIsSaid) {
    Pair pair;
    Site c(pair.loop);
    c.links.dial(pair.a.id, pair.b.address);
    ASSERT_TRUE(c.wait([&] { return !c.reasons.empty(); }));
    EXPECT_THAT(c.reasons[0], HasSubstr("another node answers there"));
    c.links.dial(pair.a.id, "localhost:1");
    c.links.dial(pair.a.id, "localhost");
    ASSERT_TRUE(c.wait([&] { return c.reasons.size() == 3; }));
    EXPECT_THAT(c.reasons, testing::Contains(HasSubstr("cannot connect to localhost:1")));
    EXPECT_THAT(c.reasons, testing::Contains(HasSubstr("it has no port")));
}

TEST(Links, WhoTakesAConnectionAndSaysNothingIsSaid) {
    asio::io_context loop;
    const tcp::acceptor mute(loop, {asio::ip::address_v4::loopback(), 0});
    LinkOptions options;
    options.handshake_limit = std::chrono::milliseconds(50);
    Site site(loop, Site::institution_key(), options);
    site.links.dial(NodeId{}, to_text(mute.local_endpoint()));
    ASSERT_TRUE(site.wait([&] { return !site.reasons.empty(); }));
    EXPECT_THAT(site.reasons[0], HasSubstr("does not answer in time"));
}

// A node took the address of one that was lost: whoever looks for the lost one there does not disturb the link.
TEST(Links, WhoLooksForAnotherWhereItsPeerListensKeepsItsLink) {
    Pair pair;
    Site c(pair.loop);
    pair.a.links.dial(c.id, pair.b.address);
    pair.b.links.dial(c.id, pair.a.address);
    ASSERT_TRUE(c.wait([&] { return !pair.a.reasons.empty() && !pair.b.reasons.empty(); }));
    const std::vector<std::uint8_t> text{1};
    EXPECT_TRUE(pair.a.links.send(pair.b.id, text));
    EXPECT_TRUE(pair.b.links.send(pair.a.id, text));
    ASSERT_TRUE(c.wait([&] { return !pair.a.messages.empty() && !pair.b.messages.empty(); }));
    EXPECT_EQ(pair.a.events.front(), up(pair.b));
    EXPECT_THAT(pair.a.events, testing::Not(testing::Contains(HasSubstr("closed"))));
    EXPECT_THAT(pair.b.events, testing::Not(testing::Contains(HasSubstr("closed"))));
    EXPECT_TRUE(pair.a.links.linked(pair.b.id) && pair.b.links.linked(pair.a.id));
}

TEST(Links, StrangersAreTurnedAwayInWords) {
    asio::io_context loop;
    Site a(loop);
    Site foreign(loop, SecretKey::generate());
    foreign.links.dial(a.id, a.address);
    ASSERT_TRUE(a.wait([&] { return !a.turned.empty() && !foreign.reasons.empty(); }));
    EXPECT_THAT(a.turned[0], HasSubstr("institution is not in"));
    EXPECT_TRUE(a.events.empty());
    Site late(loop);
    a.refuse_all = "this node was revoked";
    late.links.dial(a.id, a.address);
    ASSERT_TRUE(late.wait([&] { return !late.reasons.empty(); }));
    EXPECT_THAT(late.reasons[0], HasSubstr("this node was revoked"));
}

TEST(Links, TheSameKeyAliveTwiceIsRefused) {
    asio::io_context loop;
    Site a(loop);
    const SecretKey key = SecretKey::generate();
    auto first = std::make_unique<Site>(loop, key, Site::institution_key(), LinkOptions{});
    first->links.dial(a.id, a.address);
    ASSERT_TRUE(a.wait([&] { return a.links.linked(first->id); }));
    Site second(loop, key, Site::institution_key(), LinkOptions{});
    second.links.dial(a.id, a.address);
    ASSERT_TRUE(a.wait([&] { return !second.reasons.empty(); }));
    EXPECT_THAT(second.reasons[0], HasSubstr("in use by another process"));
    EXPECT_TRUE(a.links.linked(first->id));
    // A new process of a node that is gone is welcome.
    first.reset();
    ASSERT_TRUE(a.wait([&] { return !a.links.linked(second.id); }));
    second.links.dial(a.id, a.address);
    EXPECT_TRUE(a.wait([&] { return a.links.linked(second.id); }));
}

TEST(Links, AClosedLinkIsNoticedAtOnce) {
    Pair pair;
    pair.b.links.stop();
    ASSERT_TRUE(pair.a.wait([&] { return pair.a.events.size() == 2; }));
    EXPECT_EQ(pair.a.events[1], "closed " + cluster::brief(pair.b.id));
}

TEST(Links, CloseSendsWhatWaitsFirst) {
    Pair pair;
    const std::vector<std::uint8_t> last(1 << 20, 3);
    pair.a.links.send(pair.b.id, last);
    pair.a.links.close(pair.b.id);
    ASSERT_TRUE(pair.a.wait([&] { return pair.b.events.size() == 2; }));
    EXPECT_THAT(pair.b.messages, ElementsAre(last));
    EXPECT_EQ(pair.a.events.size(), 1U) << "who closes on purpose is not told";
}

}  // namespace
}  // namespace chaos::net
