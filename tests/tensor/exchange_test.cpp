#include "tensor/exchange.h"

#include "net/site.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <random>
#include <thread>

namespace chaos::tensor {
namespace {

using net::Credential;
using net::Links;
using net::Proven;
using net::SecretKey;

// A member with links to all others, on a loop of its own.
class Peer final : public net::LinkEvents {
public:
    explicit Peer(const SecretKey& institution)
        : key(SecretKey::generate()),
          id(net::node_id(key.public_key())),
          root_(institution.public_key()),
          exchange(loop),
          links(loop, key, net::vouch_for(institution, key.public_key(), net::Site::some_day), {}, *this, exchange) {
        exchange.connect(links);
        address = "localhost:" + std::to_string(links.listen(":0").value().port());
    }

    Result<void> admit(const Proven& peer) override {
        cluster::View view;
        view.institutions = {{.root = root_}};
        return net::admit(&view, peer, 1'800'000'000);
    }
    void link_up(NodeId) override {}
    void link_closed(NodeId, const std::string&) override { exchange.interrupt("a member is gone"); }
    void dial_failed(NodeId, const std::string&, const std::string&) override {}
    void answered(NodeId, const std::string&) override {}
    void received(NodeId, std::span<const std::uint8_t>) override {}
    void received_work(NodeId, std::span<const std::uint8_t>) override {}
    void turned_away(const std::string&, const std::string& why) override { ADD_FAILURE() << why; }

    asio::io_context loop;
    SecretKey key;
    NodeId id;
    std::string address;

private:
    cluster::Name root_;

public:
    LinkExchange exchange;
    Links links;
};

class Peers {
public:
    explicit Peers(std::size_t count) {
        const SecretKey institution = SecretKey::generate();
        for (std::size_t i = 0; i < count; ++i) peers.push_back(std::make_unique<Peer>(institution));
        for (std::size_t i = 0; i < count; ++i)
            for (std::size_t j = 0; j < i; ++j) peers[i]->links.dial(peers[j]->id, peers[j]->address);
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        const auto all_linked = [&] {
            return std::ranges::all_of(peers,
                                       [&](const auto& peer) { return peer->links.peers().size() == count - 1; });
        };
        while (!all_linked() && std::chrono::steady_clock::now() < limit)
            for (const auto& peer : peers) peer->loop.poll();
        EXPECT_TRUE(all_linked());
    }

    Group group(std::size_t self, std::uint64_t generation, const std::vector<std::size_t>& parents) const {
        Group made{.generation = generation,
                   .members = {},
                   .self = self,
                   .parents = parents,
                   .max_message_bytes = std::uint64_t{64} << 20};
        for (const auto& peer : peers) made.members.push_back(peer->id);
        return made;
    }

    // Each in its own thread. Whoever is done serves its loop until all are.
    template <class Work>
    void together(const Work& work) {
        std::atomic<std::size_t> done = 0;
        std::vector<std::jthread> threads;
        for (std::size_t place = 0; place < peers.size(); ++place) {
            threads.emplace_back([&, place] {
                work(place, *peers[place]);
                ++done;
                while (done < peers.size()) peers[place]->loop.run_one_for(std::chrono::milliseconds(1));
            });
        }
    }

    std::vector<std::unique_ptr<Peer>> peers;
};

std::vector<std::int64_t> numbers(std::size_t place, std::size_t round, std::size_t count) {
    std::mt19937_64 random(place * 1000 + round);
    std::vector<std::int64_t> result(count);
    for (std::int64_t& each : result) each = static_cast<std::int64_t>(random() >> 8U) - (std::int64_t{1} << 54);
    return result;
}

std::vector<std::int64_t> sum_of(std::size_t members, std::size_t round, std::size_t count) {
    std::vector<std::int64_t> result(count);
    for (std::size_t place = 0; place < members; ++place) {
        const auto each = numbers(place, round, count);
        for (std::size_t i = 0; i < count; ++i) result[i] += each[i];
    }
    return result;
}

std::vector<std::byte> words(const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

TEST(Exchange, EverybodyHasTheSameSumsInEveryShape) {
    for (const std::size_t count : {1U, 2U, 4U}) {
        Peers peers(count);
        std::vector<std::vector<std::size_t>> shapes = {{}, std::vector<std::size_t>(count, count - 1)};
        if (count == 4) shapes.push_back({0, 0, 1, 1});
        std::uint64_t generation = 0;
        for (const auto& shape : shapes) {
            ++generation;
            peers.together([&](std::size_t place, Peer& peer) {
                peer.exchange.begin(peers.group(place, generation, shape));
                peer.exchange.attach([&] { return words("from " + std::to_string(place)); });
                // The second round of a pair begins before the first has ended; one is longer than a frame.
                for (std::size_t round = 0; round < 20; round += 2) {
                    const std::size_t length = round == 6 ? 300'000 : 2048;
                    auto first = numbers(place, round, length);
                    auto second = numbers(place, round + 1, 100);
                    ASSERT_TRUE(peer.exchange.begin_sum(first, false));
                    ASSERT_TRUE(peer.exchange.begin_sum(second, true));
                    ASSERT_TRUE(peer.exchange.end_sum());
                    ASSERT_EQ(first, sum_of(count, round, length)) << "round " << round;
                    ASSERT_TRUE(peer.exchange.end_sum());
                    ASSERT_EQ(second, sum_of(count, round + 1, 100));
                    const auto told = peer.exchange.collect(words(std::to_string(place * 10 + round)));
                    ASSERT_TRUE(told) << told.error().message;
                    for (std::size_t other = 0; other < count; ++other) {
                        EXPECT_EQ((*told)[other], words(std::to_string(other * 10 + round)));
                        EXPECT_EQ(peer.exchange.attached_by(other), words("from " + std::to_string(other)));
                    }
                }
            });
        }
    }
}

TEST(Exchange, AnInterruptionEndsTheWaitAndTheNextGenerationGoesOn) {
    Peers peers(3);
    std::latch interrupted(2);
    peers.together([&](std::size_t place, Peer& peer) {
        peer.exchange.begin(peers.group(place, 1, {}));
        auto sums = numbers(place, 0, 1000);
        if (place == 2) {
            // It takes no part until the others have given up.
            while (!interrupted.try_wait()) peer.loop.run_one_for(std::chrono::milliseconds(1));
        } else {
            ASSERT_TRUE(peer.exchange.begin_sum(sums, false));
            asio::post(peer.loop, [&] { peer.exchange.interrupt("there is another view"); });
            const auto ended = peer.exchange.end_sum();
            ASSERT_FALSE(ended);
            EXPECT_EQ(ended.error().message, "there is another view");
            EXPECT_FALSE(peer.exchange.begin_sum(sums, false));
            interrupted.count_down();
        }
        peer.exchange.begin(peers.group(place, 2, {}));
        auto again = numbers(place, 7, 1000);
        ASSERT_TRUE(peer.exchange.begin_sum(again, false));
        ASSERT_TRUE(peer.exchange.end_sum());
        EXPECT_EQ(again, sum_of(3, 7, 1000));
    });
}

// What is attached is read by everybody: it comes as it was said, or not at all.
TEST(Exchange, AnAttachmentThatIsNoListIsAnError) {
    for (const std::size_t extra : {1U, 8U, 24U}) {
        Peers peers(2);
        peers.together([&](std::size_t place, Peer& peer) {
            peer.exchange.begin(peers.group(place, 1, {}));
            // More sums than the other has look to it like something attached.
            auto sums = numbers(place, 0, place == 0 ? 10 : 10 + extra);
            ASSERT_TRUE(peer.exchange.begin_sum(sums, true));
            EXPECT_FALSE(peer.exchange.end_sum());
        });
    }
}

TEST(Exchange, WhatMakesNoSenseIsAnErrorOrSkipped) {
    Peers peers(2);
    peers.together([&](std::size_t place, Peer& peer) {
        peer.exchange.begin(peers.group(place, 5, {}));
        auto sums = numbers(place, 0, place == 0 ? 10 : 20);
        ASSERT_TRUE(peer.exchange.begin_sum(sums, false));
        EXPECT_FALSE(peer.exchange.end_sum());
    });
    LinkExchange& exchange = peers.peers[0]->exchange;
    const NodeId other = peers.peers[1]->id;
    exchange.begin(peers.group(0, 6, {}));
    using Kind = net::BulkReceiver::Place::Kind;
    const net::BulkHead good{.kind = net::BulkKind::gradients, .bytes = 80, .first = 6, .second = 1, .third = 80};
    const auto verdict = [&](const std::function<void(net::BulkHead&)>& change) {
        net::BulkHead head = good;
        change(head);
        return exchange.place_for(other, head).kind;
    };
    EXPECT_EQ(verdict([](net::BulkHead& head) { head.first = 5; }), Kind::skip);
    EXPECT_EQ(verdict([](net::BulkHead& head) { head.first = 7; }), Kind::wait);
    EXPECT_EQ(verdict([](net::BulkHead& head) { head.second = 0; }), Kind::skip);
    EXPECT_EQ(verdict([](net::BulkHead& head) { head.second = 100; }), Kind::skip);
    EXPECT_EQ(verdict([](net::BulkHead& head) { head.third = std::uint64_t{1} << 40; }), Kind::skip);
    EXPECT_EQ(verdict([](net::BulkHead& head) { head.fourth = 2; }), Kind::skip);
    EXPECT_EQ(verdict([](net::BulkHead& head) { head.fourth = 1; }), Kind::skip);  // nothing comes down here
    EXPECT_EQ(verdict([](net::BulkHead& head) { head.fifth = 1; }), Kind::skip);
    EXPECT_EQ(exchange.place_for(NodeId{1, 2}, good).kind, Kind::skip);
    EXPECT_EQ(verdict([](net::BulkHead&) {}), Kind::here);
    EXPECT_EQ(verdict([](net::BulkHead&) {}), Kind::skip);  // it is coming already
    exchange.begin(peers.group(0, 7, {}));
    exchange.arrived(other, good);  // of the generation before: its memory was kept until now
}

TEST(Exchange, WhoIsNoNeighbourInTheTreeIsSkipped) {
    Peers peers(4);
    using Kind = net::BulkReceiver::Place::Kind;
    // 0 is above 1, which is above 2 and 3.
    const auto verdict = [&](std::size_t self, std::size_t from, std::uint32_t way) {
        LinkExchange& exchange = peers.peers[self]->exchange;
        exchange.begin(peers.group(self, 1, {0, 0, 1, 1}));
        return exchange
            .place_for(
                peers.peers[from]->id,
                {.kind = net::BulkKind::gradients, .bytes = 80, .first = 1, .second = 1, .third = 80, .fourth = way})
            .kind;
    };
    constexpr std::uint32_t up = 0;
    constexpr std::uint32_t down = 1;
    EXPECT_EQ(verdict(1, 2, up), Kind::here);
    EXPECT_EQ(verdict(1, 0, down), Kind::here);
    EXPECT_EQ(verdict(1, 2, down), Kind::skip);
    EXPECT_EQ(verdict(1, 0, up), Kind::skip);
    EXPECT_EQ(verdict(1, 1, up), Kind::skip);
    EXPECT_EQ(verdict(0, 0, up), Kind::skip);
    EXPECT_EQ(verdict(0, 0, down), Kind::skip);
    EXPECT_EQ(verdict(0, 2, up), Kind::skip);
    EXPECT_EQ(verdict(2, 3, up), Kind::skip);
}

}  // namespace
}  // namespace chaos::tensor
