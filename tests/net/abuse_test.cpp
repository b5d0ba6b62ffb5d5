// A live node among peers that mean no good. Two honest neighbours exchange messages and bulk data with it all the
// while, and must hardly notice: their links stand, their messages come back soon and their data keeps its pace,
// whatever others do. The node's memory stays bounded, its descriptors come back, and everything is counted.
//
//   a thread of its own: the node       this thread: its neighbours       another thread: the abuser, on plain sockets
#include "net/links.h"

#include "base/cpu_time.h"
#include "net/abuser.h"
#include "net/admission.h"
#include "net/site.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

namespace chaos::net {
namespace {

using std::chrono::milliseconds;
using testing::Each;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t unwanted = 99;
constexpr std::size_t frame_bytes = 64 << 10;
constexpr milliseconds pace{5};  // of the neighbours: a message and a frame of bulk data each
constexpr std::uint64_t max_growth_bytes = 64 << 20;
constexpr milliseconds longest_round_trip{500};  // generous: the machine may be busy with other things

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;  // then memory that was freed is kept, and time means little
#else
constexpr bool sanitized = false;
#endif

std::uint64_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    std::uint64_t all = 0;
    std::uint64_t resident = 0;
    file >> all >> resident;
    return resident * 4096;
}

std::size_t descriptors() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

Result<void> admit_peer(const Proven& peer) {
    cluster::View view;
    view.institutions = {{.root = Site::institution_key().public_key()}};
    return admit(&view, peer, 1'800'000'000);
}

// The node: says again what it is told, takes what bulk data it is sent, but for that which nobody wants.
class Node final : public LinkEvents, public BulkReceiver {
public:
    // Runs in the node's thread.
    template <class Question>
    auto ask(Question question) {
        std::packaged_task<decltype(question())()> task(std::move(question));
        auto answer = task.get_future();
        asio::post(loop, [&task] { task(); });
        return answer.get();
    }

    Node()
        : links(loop, key, vouch_for(Site::institution_key(), key.public_key(), Site::some_day), options(), *this,
                *this),
          work_(asio::make_work_guard(loop)) {
        const auto where = links.listen(":0");
        EXPECT_TRUE(where);
        port = where->port();
        thread_ = std::thread([this] { loop.run(); });
    }
    ~Node() override {
        ask([&] { links.stop(); });
        work_.reset();
        thread_.join();
    }

    static LinkOptions options() {
        LinkOptions options;
        options.handshake_limit = milliseconds(1000);
        options.max_waiting_bytes = 8 << 20;
        options.longest_loud = milliseconds(1000);
        options.max_unconfirmed_bytes = 16 << 20;
        options.longest_without_bulk = milliseconds(1000);
        return options;
    }

    LinkCounters counters() {
        return ask([&] { return links.counters(); });
    }
    std::vector<std::string> lines() {
        return ask([&] { return turned; });
    }

    Result<void> admit(const Proven& peer) override { return admit_peer(peer); }
    void link_up(NodeId peer) override { up.push_back(peer); }
    void link_closed(NodeId peer, const std::string& why) override { closed.emplace_back(peer, why); }
    void dial_failed(NodeId, const std::string&, const std::string&) override {}
    void answered(NodeId, const std::string&) override {}
    void received(NodeId from, std::span<const std::uint8_t> message) override {
        ++messages[from];
        if (message.size() > 8) links.send(from, message);
    }
    void received_work(NodeId, std::span<const std::uint8_t>) override {}
    void turned_away(const std::string&, const std::string& why) override { turned.push_back(why); }
    Place place_for(NodeId from, const BulkHead& head) override {
        if (head.fourth == unwanted) return {.kind = Place::Kind::skip};
        place_[{from, head.fifth}].resize(head.bytes);
        return {.kind = Place::Kind::here, .at = place_[{from, head.fifth}]};
    }
    void arrived(NodeId from, const BulkHead& head) override { bulk_bytes[from] += head.bytes; }
    void dropped(NodeId, const BulkHead&) override {}

    asio::io_context loop;
    SecretKey key = SecretKey::generate();
    NodeId id = node_id(key.public_key());
    std::uint16_t port = 0;
    std::vector<NodeId> up;
    std::vector<std::pair<NodeId, std::string>> closed;
    std::vector<std::string> turned;
    std::map<NodeId, std::uint64_t> messages;
    std::map<NodeId, std::uint64_t> bulk_bytes;
    Links links;

private:
    std::map<std::pair<NodeId, std::uint32_t>, std::vector<std::byte>> place_;  // by lane
    asio::executor_work_guard<asio::io_context::executor_type> work_;
    std::thread thread_;
};

// A neighbour: a message and a frame at a steady pace, whether or not the last ones have arrived.
class Neighbour final : public LinkEvents, public BulkReceiver {
public:
    Neighbour(asio::io_context& loop, const Node& node)
        : node_(node.id),
          links(loop, key, vouch_for(Site::institution_key(), key.public_key(), Site::some_day), {}, *this, *this),
          timer_(loop) {
        links.dial(node.id, "localhost:" + std::to_string(node.port));
    }

    void begin() {
        timer_.expires_at(Clock::now());
        tick();
    }
    // Everything it sent is back, or arrived.
    [[nodiscard]] bool quiet() const { return round_trips.size() == sent; }
    void finish() { timer_.cancel(); }

    Result<void> admit(const Proven& peer) override { return admit_peer(peer); }
    void link_up(NodeId) override { up = true; }
    void link_closed(NodeId, const std::string& why) override { closed = why; }
    void dial_failed(NodeId, const std::string&, const std::string& why) override { closed = why; }
    void answered(NodeId, const std::string&) override {}
    void received(NodeId, std::span<const std::uint8_t> message) override {
        Clock::rep then = 0;
        std::memcpy(&then, message.data() + 8, sizeof then);
        round_trips.push_back(Clock::now() - Clock::time_point(Clock::duration(then)));
    }
    void received_work(NodeId, std::span<const std::uint8_t>) override {}
    void turned_away(const std::string&, const std::string&) override {}
    Place place_for(NodeId, const BulkHead&) override { return {}; }
    void arrived(NodeId, const BulkHead&) override {}
    void dropped(NodeId, const BulkHead&) override {}

    SecretKey key = SecretKey::generate();
    NodeId id = node_id(key.public_key());
    bool up = false;
    std::string closed;
    std::uint64_t sent = 0;
    std::vector<Clock::duration> round_trips;

private:
    NodeId node_;

public:
    Links links;

private:
    void tick() {
        std::array<std::uint8_t, 64> message{};
        const Clock::rep now = Clock::now().time_since_epoch().count();
        std::memcpy(message.data() + 8, &now, sizeof now);
        links.send(node_, message);
        const auto lane = static_cast<std::uint32_t>(sent % 2);
        links.send_bulk(node_, {.kind = BulkKind::gradients, .bytes = frame_bytes, .fifth = lane}, *data_, lane, data_);
        ++sent;
        timer_.expires_at(timer_.expiry() + pace);
        timer_.async_wait([this](boost::system::error_code cancelled) {
            if (!cancelled) tick();
        });
    }

    std::shared_ptr<std::vector<std::byte>> data_ = std::make_shared<std::vector<std::byte>>(frame_bytes);
    asio::steady_timer timer_;
};

class Abuse : public testing::Test {
protected:
    Abuse() {
        EXPECT_TRUE(run_until(loop, [&] { return one.up && other.up; }));
        one.begin();
        other.begin();
        // Everything that is made once is there: bulk connections, buffers.
        EXPECT_TRUE(
            run_until(loop, [&] { return one.sent > 20 && node.ask([&] { return node.bulk_bytes.size(); }) == 2; }));
        memory_before_ = resident_bytes();
        descriptors_before_ = descriptors();
    }

    // The neighbours go on while the abuser is at work, and until it has been looked at for a while.
    void suffer(const std::function<void()>& deeds) {
        const Clock::time_point began = Clock::now();
        const std::uint64_t arrived_before = arrived_bytes();
        const auto cpu_before = node.ask([] { return thread_cpu_ns(); });
        std::atomic<bool> done = false;
        std::thread abuser([&] {
            deeds();
            done = true;
        });
        EXPECT_TRUE(run_until(loop, [&] {
            most_memory_ = std::max(most_memory_, resident_bytes());
            return done && Clock::now() - began > milliseconds(300);
        }));
        abuser.join();
        const auto cpu = node.ask([] { return thread_cpu_ns(); }) - cpu_before;
        const std::chrono::duration<double> wall = Clock::now() - began;
        // The neighbours keep half of their pace at least.
        const double expected = 2 * frame_bytes * (wall / std::chrono::duration<double>(pace));
        EXPECT_GT(static_cast<double>(arrived_bytes() - arrived_before), expected / 2);
        const double share = static_cast<double>(cpu) / 1e9 / wall.count();
        RecordProperty("node_cpu_share", std::to_string(share));
        if (!sanitized) {
            EXPECT_LT(share, 0.9) << "of a core";
        }
    }

    std::uint64_t arrived_bytes() {
        return node.ask([&] { return node.bulk_bytes[one.id] + node.bulk_bytes[other.id]; });
    }
    bool becomes(const std::function<bool()>& condition) { return run_until(loop, condition); }

    void TearDown() override {
        for (Neighbour* neighbour : {&one, &other}) {
            neighbour->finish();
            EXPECT_EQ(neighbour->closed, "");
            EXPECT_TRUE(becomes([&] { return neighbour->quiet(); })) << "messages were lost";
            const std::uint64_t all = neighbour->sent * frame_bytes;
            const NodeId id = neighbour->id;
            EXPECT_TRUE(becomes([&] { return node.ask([&] { return node.bulk_bytes[id]; }) == all; }));
            std::vector<Clock::duration>& trips = neighbour->round_trips;
            std::ranges::sort(trips);
            const Clock::duration late = trips[trips.size() * 99 / 100];
            EXPECT_LT(late, longest_round_trip);
            RecordProperty("round_trip_us_p99",
                           std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(late).count()));
        }
        EXPECT_TRUE(becomes([&] { return descriptors() <= descriptors_before_; })) << "descriptors are left over";
        if (!sanitized) {
            RecordProperty("growth_kB", std::to_string((most_memory_ - std::min(most_memory_, memory_before_)) >> 10));
            EXPECT_LT(most_memory_, memory_before_ + max_growth_bytes);
        }
    }

    // A peer that the node lets in.
    [[nodiscard]] Abuser peer() const { return Abuser(node.port, SecretKey::generate()); }

    Node node;
    asio::io_context loop;
    Neighbour one{loop, node};
    Neighbour other{loop, node};

private:
    std::uint64_t memory_before_ = 0;
    std::uint64_t most_memory_ = 0;
    std::size_t descriptors_before_ = 0;
};

TEST_F(Abuse, ConnectionsThatSayNothingAreFewAndShort) {
    suffer([&] {
        std::vector<Connection> all;
        for (std::size_t i = 0; i < 2 * Node::options().max_strangers; ++i) all.emplace_back(node.port);
        for (Connection& connection : all) connection.wait_for_end();
    });
    EXPECT_EQ(node.counters().too_many, Node::options().max_strangers);
    EXPECT_EQ(node.counters().handshake_failed, Node::options().max_strangers);
    EXPECT_EQ(node.lines().size(), 2U);  // one for each cause
    // There is room again.
    Abuser welcome = peer();
    suffer([&] { EXPECT_TRUE(welcome.link()); });
}

TEST_F(Abuse, WhoSaysWhoItIsGetsInAmongThoseWhoDoNot) {
    suffer([&] {
        std::vector<Connection> silent;
        for (std::size_t i = 0; i < Node::options().max_strangers; ++i) silent.emplace_back(node.port);
        Abuser welcome = peer();
        EXPECT_TRUE(welcome.link());
        EXPECT_EQ(node.counters().too_many, 1U);  // they were all there when it came
        for (Connection& connection : silent) connection.wait_for_end();
    });
}

TEST_F(Abuse, GarbageInsteadOfTls) {
    suffer([&] {
        for (int i = 0; i < 50; ++i) {
            Connection connection(node.port);
            connection.send_raw("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n");
            connection.wait_for_end();
        }
    });
    EXPECT_EQ(node.counters().handshake_failed, 50U);
    EXPECT_EQ(node.lines().size(), 1U);  // what stays as it was is said once
}

TEST_F(Abuse, CredentialsThatAreNotGood) {
    const SecretKey foreign = SecretKey::generate();
    const SecretKey key = SecretKey::generate();
    const SecretKey& institution = Site::institution_key();
    suffer([&] {
        EXPECT_FALSE(Abuser(node.port, key, vouch_for(foreign, key.public_key(), Site::some_day)).link());
        EXPECT_FALSE(Abuser(node.port, key, vouch_for(institution, key.public_key(), 1)).link());
        EXPECT_FALSE(Abuser(node.port, key, vouch_for(institution, one.key.public_key(), Site::some_day)).link());
        EXPECT_FALSE(Abuser(node.port, key, Credential{}).link());
    });
    EXPECT_EQ(node.counters().refused, 4U);
    EXPECT_THAT(node.lines(),
                testing::ElementsAre(HasSubstr("institution is not in"), HasSubstr("expired"),
                                     HasSubstr("for another node"), HasSubstr("not signed by the institution")));
}

TEST_F(Abuse, FramesWithoutEnd) {
    suffer([&] {
        Abuser greets_for_ever = peer();
        greets_for_ever.claim_frame(0xffffffff);
        greets_for_ever.wait_for_end();
        Abuser greets_long = peer();
        greets_long.claim_frame(5000);
        greets_long.wait_for_end();
        Abuser linked = peer();
        EXPECT_TRUE(linked.link());
        linked.claim_frame(0xffffffff);
        linked.wait_for_end();
        Abuser bulk = peer();
        EXPECT_TRUE(bulk.link());
        Abuser place = bulk.another();
        EXPECT_TRUE(place.link_bulk(0, 0));
        place.send_bulk_head({.bytes = max_bulk_bytes + 1});
        bulk.wait_for_end();
    });
    EXPECT_EQ(node.counters().malformed, 4U);
    EXPECT_EQ(node.lines().size(), 2U);
    EXPECT_EQ(node.ask([&] { return node.closed.size(); }), 2U);
}

TEST_F(Abuse, AMillionMessages) {
    Abuser talker = peer();
    suffer([&] {
        EXPECT_TRUE(talker.link());
        talker.send_for(milliseconds(2000), 1'000'000, {1, 2, 3});
        talker.close();
    });
    const std::uint64_t handled = node.ask([&] { return node.messages[talker.id()]; });
    // What came in one piece is handled in one piece; then it waits.
    EXPECT_LT(handled, 60'000U);
    EXPECT_GT(node.counters().control_delayed, 0U);
    EXPECT_TRUE(becomes([&] { return node.counters().dropped_loud == 1; }));
}

TEST_F(Abuse, WhoeverDoesNotReadIsDropped) {
    Abuser deaf = peer();
    suffer([&] { EXPECT_TRUE(deaf.link()); });
    const std::vector<std::uint8_t> message(1000);
    const NodeId id = deaf.id();
    suffer([&] {
        for (int i = 0; i < 1000; ++i)
            node.ask([&] {
                for (int k = 0; k < 100; ++k) node.links.send(id, message);
            });
    });
    EXPECT_EQ(node.counters().dropped_slow, 1U);
    EXPECT_FALSE(node.ask([&] { return node.links.linked(id); }));
}

TEST_F(Abuse, WhoeverDoesNotConfirmIsDropped) {
    const auto data = std::make_shared<std::vector<std::byte>>(max_bulk_bytes);
    suffer([&] {
        Abuser miser = peer();
        EXPECT_TRUE(miser.link());
        Abuser place = miser.another();
        EXPECT_TRUE(place.link_bulk(0, 0));
        node.ask([&] {
            for (int i = 0; i < 64; ++i) node.links.send_bulk(miser.id(), {.bytes = max_bulk_bytes}, *data, 0, data);
        });
        place.wait_for_end();  // it reads all of it
        miser.wait_for_end();
    });
    EXPECT_EQ(node.counters().dropped_unconfirmed, 1U);
    EXPECT_THAT(node.ask([&] { return node.closed.back().second; }), HasSubstr("does not confirm"));
    EXPECT_TRUE(becomes([&] { return data.use_count() == 1; }));
}

TEST_F(Abuse, RefusalsThatFillTheLog) {
    suffer([&] {
        Abuser wordy = peer();
        EXPECT_TRUE(wordy.link());
        wordy.refuse(std::string(4 << 20, '\n'));
        wordy.wait_for_end();
    });
    const std::string why = node.ask([&] { return node.closed.back().second; });
    EXPECT_LT(why.size(), 300U);
    EXPECT_EQ(why.find('\n'), std::string::npos);
}

TEST_F(Abuse, QuestionsWhoseAnswersNobodyReads) {
    Abuser deaf = peer();
    suffer([&] {
        EXPECT_TRUE(deaf.link());
        deaf.ping_for(milliseconds(1000));
        deaf.close();
    });
    EXPECT_GT(node.counters().control_delayed, 0U);
}

TEST_F(Abuse, BulkThatNobodyWants) {
    Abuser sender = peer();
    std::uint64_t bytes = 0;
    suffer([&] {
        EXPECT_TRUE(sender.link());
        Abuser place = sender.another();
        EXPECT_TRUE(place.link_bulk(1, 0));
        bytes = place.send_bulk_for(milliseconds(1500), unwanted);
        place.close();
        sender.close();
    });
    EXPECT_GT(bytes, 0U);
    EXPECT_EQ(node.ask([&] { return node.bulk_bytes[sender.id()]; }), 0U);
}

TEST_F(Abuse, MoreThanWasSentHasArrived) {
    suffer([&] {
        Abuser liar = peer();
        EXPECT_TRUE(liar.link());
        liar.say_arrived(0, 1);
        liar.wait_for_end();
        Abuser other_liar = peer();
        EXPECT_TRUE(other_liar.link());
        other_liar.say_arrived(77, 0);
        other_liar.wait_for_end();
        Abuser bulk_liar = peer();
        EXPECT_TRUE(bulk_liar.link());
        Abuser place = bulk_liar.another();
        EXPECT_FALSE(place.link_bulk(0, 1'000'000));
    });
    EXPECT_EQ(node.counters().malformed, 3U);
    EXPECT_THAT(node.lines(), testing::ElementsAre(HasSubstr("more has arrived than was sent")));
}

TEST_F(Abuse, BulkConnectionsOfNoLink) {
    suffer([&] {
        EXPECT_FALSE(peer().link_bulk(0, 0));
        Abuser linked = peer();
        EXPECT_TRUE(linked.link());
        EXPECT_FALSE(linked.another().link_bulk(1000, 0));
        linked.instance += 1;
        EXPECT_FALSE(linked.another().link_bulk(0, 0));
    });
    EXPECT_EQ(node.counters().refused, 3U);
    EXPECT_THAT(node.lines(), Each(HasSubstr("no link that this connection belongs to")));
}

TEST_F(Abuse, NobodyTakesTheNameOfAnother) {
    Abuser thief = peer();
    thief.claimed = one.id;
    suffer([&] { EXPECT_TRUE(thief.link()); });
    EXPECT_THAT(node.ask([&] { return node.up; }), testing::UnorderedElementsAre(one.id, other.id, thief.id()));
}

TEST_F(Abuse, OneKeyIsAliveOnce) {
    const SecretKey key = SecretKey::generate();
    suffer([&] {
        Abuser first(node.port, key);
        EXPECT_TRUE(first.link());
        std::atomic<bool> over = false;
        std::thread second([&] {
            Abuser again(node.port, key);
            EXPECT_FALSE(again.link());
            over = true;
        });
        while (!over) first.answer_for(milliseconds(50));
        second.join();
    });
    EXPECT_EQ(node.counters().refused, 1U);
    EXPECT_THAT(node.lines(), Each(HasSubstr("in use by another process")));
}

TEST_F(Abuse, ConnectionsThatBreakAnywhere) {
    suffer([&] {
        for (std::size_t i = 0; i < 60; ++i) {
            if (i % 3 == 0) {
                Connection connection(node.port);
                connection.send_raw(std::string("\x16\x03\x01\x02\x00\x01", i % 7));
                connection.reset();
                continue;
            }
            Abuser abuser = peer();
            if (i % 3 == 1) abuser.claim_frame(50);
            if (i % 3 == 2) {
                EXPECT_TRUE(abuser.link());
                Abuser place = abuser.another();
                EXPECT_TRUE(place.link_bulk(0, 0));
                place.send_bulk_head({.bytes = 1000, .fourth = i % 2 == 0 ? unwanted : 0, .fifth = 7});
                abuser.claim_frame(1'000'000);
                place.reset();
            }
            abuser.reset();
        }
    });
    EXPECT_TRUE(becomes([&] { return node.ask([&] { return node.closed.size(); }) == 20; }));
}

TEST_F(Abuse, KeyUpdatesForEver) {
    suffer([&] {
        Abuser stranger = peer();
        EXPECT_FALSE(stranger.update_keys_for(milliseconds(3000))) << "nobody minds";
        Abuser linked = peer();
        EXPECT_TRUE(linked.link());
        EXPECT_FALSE(linked.update_keys_for(milliseconds(3000))) << "nobody minds";
    });
    EXPECT_EQ(node.counters().handshake_failed, 1U);
}

TEST_F(Abuse, BulkConnectionsThatAreNeverAnswered) {
    const SecretKey key = SecretKey::generate();
    suffer([&] {
        const Listener listener;
        node.ask([&] { node.links.dial(node_id(key.public_key()), "127.0.0.1:" + std::to_string(listener.port())); });
        Abuser abuser(listener.accept(), key);
        EXPECT_TRUE(abuser.link());
        // The node dials again and again: with every attempt the last one's time is up.
        std::vector<Connection> attempts;
        for (int i = 0; i < 4; ++i) attempts.push_back(listener.accept());
        abuser.close();
        for (Connection& attempt : attempts) attempt.wait_for_end();
    });
    EXPECT_EQ(node.ask([&] { return node.closed.size(); }), 1U);
}

TEST_F(Abuse, BulkDataDoesNotWaitForEverForAConnection) {
    const auto data = std::make_shared<std::vector<std::byte>>(1000);
    const auto send_one = [&](const Abuser& to, BulkKind kind) {
        node.ask([&] { node.links.send_bulk(to.id(), {.kind = kind, .bytes = 1000}, *data, any_lane, data); });
    };
    suffer([&] {
        for (const BulkKind kind : {BulkKind::gradients, BulkKind::results}) {
            Abuser abuser = peer();
            EXPECT_TRUE(abuser.link());
            send_one(abuser, kind);
            abuser.wait_for_end();
        }
        Abuser abuser = peer();
        EXPECT_TRUE(abuser.link());
        {
            Abuser place = abuser.another();
            EXPECT_TRUE(place.link_bulk(0, 0));
            send_one(abuser, BulkKind::gradients);
            place.reset();
        }
        abuser.wait_for_end();
    });
    EXPECT_EQ(node.counters().dropped_without_bulk, 3U);
    EXPECT_THAT(node.ask([&] { return node.closed.back().second; }), HasSubstr("does not come"));
    EXPECT_TRUE(becomes([&] { return data.use_count() == 1; }));
}

TEST_F(Abuse, ABulkConnectionThatIsCutIsNoticed) {
    const auto data = std::make_shared<std::vector<std::byte>>(1000);
    suffer([&] {
        Abuser abuser = peer();
        EXPECT_TRUE(abuser.link());
        Abuser place = abuser.another();
        EXPECT_TRUE(place.link_bulk(0, 0));
        place.cut();
        node.ask([&] { node.links.send_bulk(abuser.id(), {.bytes = 1000}, *data, 0, data); });
        abuser.wait_for_end();  // for it does not come back
    });
    EXPECT_EQ(node.counters().dropped_without_bulk, 1U);
    EXPECT_TRUE(becomes([&] { return data.use_count() == 1; }));
}

TEST_F(Abuse, EverythingAtOnce) {
    suffer([&] {
        std::vector<std::thread> threads;
        threads.emplace_back([&] {
            std::vector<Connection> silent;
            for (std::size_t i = 0; i < Node::options().max_strangers / 2; ++i) silent.emplace_back(node.port);
            for (Connection& connection : silent) connection.wait_for_end();
        });
        threads.emplace_back([&] {
            Abuser talker = peer();
            EXPECT_TRUE(talker.link());
            talker.send_for(milliseconds(1500), 1'000'000, {1, 2, 3});
        });
        threads.emplace_back([&] {
            Abuser sender = peer();
            EXPECT_TRUE(sender.link());
            Abuser place = sender.another();
            EXPECT_TRUE(place.link_bulk(0, 0));
            place.send_bulk_for(milliseconds(1500), unwanted);
        });
        for (int i = 0; i < 50; ++i) {
            Connection garbage(node.port);
            garbage.send_raw("garbage");
            garbage.reset();
            peer().reset();
        }
        for (std::thread& thread : threads) thread.join();
    });
    const LinkCounters counters = node.counters();
    EXPECT_GE(counters.handshake_failed, Node::options().max_strangers / 2);
    EXPECT_GE(node.lines().size(), 1U);
    EXPECT_LT(node.lines().size(), counters.turned_away);
}

TEST_F(Abuse, MoreHandshakesThanTheNodeHasTimeFor) {
    suffer([&] {
        // Connections are made faster than any machine computes handshakes.
        for (int i = 0; i < 400; ++i) Connection(node.port).close();
        for (int i = 0; i < 20; ++i) peer().reset();
    });
    const LinkCounters counters = node.counters();
    EXPECT_GT(counters.handshakes_delayed + counters.too_many, 0U);
    EXPECT_LE(node.lines().size(), 200U + 10 * 30);
}

}  // namespace
}  // namespace chaos::net
