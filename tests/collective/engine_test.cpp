#include "collective/engine.h"

#include "collective/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::collective {
namespace {

using test::Holder;
using test::Network;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Remembers what is sent; the test says what arrives.
struct Wires final : Transport {
    struct Sent {
        NodeId to;
        ChunkHeader header;
        std::vector<std::byte> payload;
    };
    void send(NodeId to, const ChunkHeader& header, std::span<const std::byte> payload,
              std::shared_ptr<const void> owner) override {
        sent.push_back({to, header, {payload.begin(), payload.end()}});
        owners.push_back(std::move(owner));
    }
    void resume(NodeId from) override { resumed.push_back(from); }
    void cancel(ExchangeId exchange) override { cancelled.push_back(exchange); }

    std::vector<Sent> sent;
    std::vector<std::shared_ptr<const void>> owners;
    std::vector<NodeId> resumed;
    std::vector<ExchangeId> cancelled;
};

// A member in the middle of a path of three: 0 is its child, 2 its parent. 384 floats are three chunks.
class Middle : public ::testing::Test {
protected:
    static constexpr std::uint64_t floats = 384;
    const std::vector<NodeId> members{{1, 0}, {2, 0}, {3, 0}};
    const NodeId child = members[0];
    const NodeId parent = members[2];
    const NodeId stranger{9, 9};
    const ExchangeId now{.epoch = 4, .step = 10};

    Wires wires;
    std::map<ExchangeId, Outcome> outcomes;
    std::vector<Refusal> refusals;
    Engine engine{wires,
                  {.ended = [this](ExchangeId id, const Outcome& outcome) { outcomes.emplace(id, outcome); },
                   .refused = [this](const Refusal& refusal) { refusals.push_back(refusal); }}};
    std::shared_ptr<const Schedule> schedule = schedule_of();
    std::shared_ptr<Holder> holder = test::hold(std::vector<float>(floats, 1.0F));

    [[nodiscard]] std::shared_ptr<const Schedule> schedule_of() const {
        plan::SyncPlan plan = test::star_plan(3, floats);
        plan.trees[0].parent = {1, 2, 2};
        return test::schedule_for(plan, members, members[1], {.chunk_bytes = 512, .window_chunks = 2});
    }
    void begin(ExchangeId id) { ASSERT_TRUE(engine.begin(id, schedule, test::vectors_of(holder)).ok()); }
    [[nodiscard]] ChunkHeader sum(std::uint32_t chunk) const {
        return {.exchange = now, .plan = schedule->hash, .tree = 0, .chunk = chunk, .bytes = 512, .down = false};
    }
    [[nodiscard]] ChunkHeader result(std::uint32_t chunk) const {
        ChunkHeader header = sum(chunk);
        header.down = true;
        return header;
    }
    // The whole life of an honest chunk.
    void deliver(NodeId from, const ChunkHeader& header, float value) {
        const Place place = engine.place_for(from, header);
        ASSERT_EQ(place.verdict, Place::Verdict::take);
        ASSERT_EQ(place.bytes.size(), header.bytes);
        for (std::size_t i = 0; i < place.bytes.size(); i += 4) std::memcpy(place.bytes.data() + i, &value, 4);
        engine.arrived(from, header);
    }
    void expect_refused(NodeId from, const ChunkHeader& header, Why why) {
        const std::size_t sent = wires.sent.size();
        const std::uint64_t used = engine.pool().used_bytes();
        refusals.clear();
        EXPECT_EQ(engine.place_for(from, header).verdict, Place::Verdict::skip);
        ASSERT_EQ(refusals.size(), 1U);
        EXPECT_EQ(refusals[0].why, why) << say(refusals[0]);
        EXPECT_EQ(refusals[0].from, from);
        EXPECT_EQ(refusals[0].header, header);
        EXPECT_EQ(wires.sent.size(), sent);
        EXPECT_EQ(engine.pool().used_bytes(), used);
    }
    void expect_honest_end() {
        for (std::uint32_t chunk = 0; chunk < 3; ++chunk) {
            if (chunk > 1) deliver(parent, result(chunk - 2), 7.0F);
            deliver(child, sum(chunk), 2.0F);
            ASSERT_EQ(wires.sent.back().to, parent);
            ASSERT_EQ(wires.sent.back().header, sum(chunk));
            float value = 0.0F;
            std::memcpy(&value, wires.sent.back().payload.data(), 4);
            ASSERT_EQ(value, 3.0F);
        }
        deliver(parent, result(2), 7.0F);
        deliver(parent, result(1), 7.0F);
        ASSERT_TRUE(std::holds_alternative<Complete>(outcomes.at(now)));
        ASSERT_EQ(holder->output, std::vector<float>(floats, 7.0F));
    }
};

TEST_F(Middle, AddsPassesOnAndCompletes) {
    begin(now);
    expect_honest_end();
    EXPECT_EQ(wires.sent.size(), 6U);
    EXPECT_EQ(std::count_if(wires.sent.begin(), wires.sent.end(), [&](const auto& s) { return s.to == child; }), 3);
}

TEST_F(Middle, HeadersThatLieAreRefusedAndChangeNothing) {
    begin(now);
    const auto with = [&](auto change) {
        ChunkHeader header = sum(0);
        change(header);
        return header;
    };
    expect_refused(child, with([](ChunkHeader& h) { h.tree = 1; }), Why::no_such_tree);
    expect_refused(child, with([](ChunkHeader& h) { h.tree = 0xffffffff; }), Why::no_such_tree);
    expect_refused(child, with([](ChunkHeader& h) { h.chunk = 3; }), Why::no_such_chunk);
    expect_refused(child, with([](ChunkHeader& h) { h.chunk = 0xffffffff; }), Why::no_such_chunk);
    for (const std::uint32_t bytes : {0U, 4U, 511U, 513U, 0xffffffffU})
        expect_refused(child, with([&](ChunkHeader& h) { h.bytes = bytes; }), Why::wrong_size);
    expect_refused(parent, sum(0), Why::not_from_there);
    expect_refused(stranger, sum(0), Why::not_from_there);
    expect_refused(members[1], sum(0), Why::not_from_there);
    expect_refused(child, result(0), Why::not_from_there);
    expect_refused(stranger, result(0), Why::not_from_there);
    expect_refused(parent, result(0), Why::not_asked_for);
    expect_refused(child, sum(2), Why::not_asked_for);  // beyond the window
    // A stranger's other plan is its own business.
    expect_refused(stranger, with([](ChunkHeader& h) { ++h.plan; }), Why::plan_differs);
    EXPECT_TRUE(outcomes.empty());
    expect_honest_end();
    expect_refused(child, sum(0), Why::repeated);
    expect_refused(parent, result(0), Why::repeated);
}

TEST_F(Middle, RepeatedChunksAreRefused) {
    begin(now);
    const Place place = engine.place_for(child, sum(0));
    ASSERT_EQ(place.verdict, Place::Verdict::take);
    expect_refused(child, sum(0), Why::repeated);  // while the first is being received
    engine.dropped(child, sum(0));
    deliver(child, sum(0), 2.0F);  // and again after it broke off
    expect_refused(child, sum(0), Why::repeated);
    ASSERT_EQ(engine.place_for(parent, result(0)).verdict, Place::Verdict::take);
    expect_refused(parent, result(0), Why::repeated);
    engine.dropped(parent, result(0));
    deliver(parent, result(0), 7.0F);
    expect_refused(parent, result(0), Why::repeated);
}

TEST_F(Middle, ANeighboursOtherPlanEndsTheExchange) {
    begin(now);
    ChunkHeader header = sum(0);
    header.plan ^= 1;
    EXPECT_EQ(engine.place_for(child, header).verdict, Place::Verdict::skip);
    ASSERT_TRUE(std::holds_alternative<Refused>(outcomes.at(now)));
    const Refusal& refusal = std::get<Refused>(outcomes.at(now)).refusal;
    EXPECT_EQ(refusal.from, child);
    EXPECT_EQ(refusal.why, Why::plan_differs);
    EXPECT_THAT(say(refusal), HasSubstr("it executes another plan"));
    EXPECT_EQ(engine.place_for(child, sum(0)).verdict, Place::Verdict::skip);
    EXPECT_TRUE(wires.sent.empty());
}

TEST_F(Middle, WhatIsEarlyWaitsAndWhatIsLateIsSkipped) {
    EXPECT_EQ(engine.place_for(child, sum(0)).verdict, Place::Verdict::wait);
    EXPECT_EQ(engine.place_for(stranger, sum(0)).verdict, Place::Verdict::wait);
    EXPECT_EQ(engine.pool().used_bytes(), 0U);
    begin(now);
    EXPECT_THAT(wires.resumed, ElementsAre(child, stranger));
    const auto of = [&](std::uint64_t epoch, std::uint64_t step) {
        ChunkHeader header = sum(0);
        header.exchange = {epoch, step};
        return engine.place_for(child, header).verdict;
    };
    EXPECT_EQ(of(4, 11), Place::Verdict::wait);
    EXPECT_EQ(of(5, 10), Place::Verdict::wait);
    EXPECT_EQ(of(5, 3), Place::Verdict::wait);
    EXPECT_EQ(of(4, 9), Place::Verdict::skip);
    EXPECT_EQ(of(3, 11), Place::Verdict::skip);
    EXPECT_TRUE(refusals.empty());
    EXPECT_EQ(of(4, 12), Place::Verdict::skip);
    ASSERT_EQ(refusals.size(), 1U);
    EXPECT_EQ(refusals[0].why, Why::far_ahead);
    deliver(child, sum(0), 2.0F);
}

TEST_F(Middle, ExchangesBeginInOrderAndTwoAtMostRun) {
    begin(now);
    const auto why = [&](ExchangeId id, Vectors vectors) {
        const auto begun = engine.begin(id, schedule, std::move(vectors));
        return begun.ok() ? "" : begun.error().message;
    };
    EXPECT_THAT(why(now, test::vectors_of(holder)), HasSubstr("does not follow"));
    EXPECT_THAT(why({3, 99}, test::vectors_of(holder)), HasSubstr("does not follow"));
    EXPECT_THAT(why({4, 11}, test::vectors_of(test::hold({1.0F}))), HasSubstr("384 floats"));
    const auto next = test::hold(std::vector<float>(floats, 1.0F));
    EXPECT_EQ(why({4, 11}, test::vectors_of(next)), "");
    EXPECT_THAT(why({4, 12}, test::vectors_of(next)), HasSubstr("must wait"));
    expect_honest_end();
    EXPECT_TRUE(engine.result(now).has_value());
    EXPECT_FALSE(engine.result({4, 11}).has_value());
    EXPECT_EQ(why({4, 12}, test::vectors_of(next)), "");
    engine.abandon();
    EXPECT_EQ(outcomes.size(), 3U);
    EXPECT_TRUE(std::holds_alternative<Interrupted>(outcomes.at({4, 12})));
}

TEST_F(Middle, ALostPeerInterruptsOnlyWhatNeedsIt) {
    begin(now);
    engine.peer_lost(stranger);
    EXPECT_TRUE(outcomes.empty());
    deliver(child, sum(0), 2.0F);
    deliver(child, sum(1), 2.0F);
    deliver(parent, result(0), 7.0F);
    deliver(child, sum(2), 2.0F);
    // All that the child had to say is here.
    engine.peer_lost(child);
    EXPECT_TRUE(outcomes.empty());
    deliver(parent, result(1), 7.0F);
    EXPECT_EQ(wires.sent.back().to, parent) << "nothing is sent to a lost peer";
    engine.peer_lost(parent);
    const auto& interrupted = std::get<Interrupted>(outcomes.at(now));
    EXPECT_THAT(interrupted.lost, ElementsAre(child, parent));
    ASSERT_EQ(interrupted.known.size(), 1U);
    EXPECT_THAT(interrupted.known[0], ElementsAre(true, true, false));
    EXPECT_FALSE(engine.result(now).has_value());
    EXPECT_TRUE(wires.cancelled.empty()) << "others may still complete with what is on its way";
    engine.abandon();
    EXPECT_THAT(wires.cancelled, ElementsAre(now));
    engine.abandon();
    EXPECT_EQ(wires.cancelled.size(), 1U);
}

TEST_F(Middle, AChildWhoseSumsAreMissingInterrupts) {
    begin(now);
    deliver(child, sum(1), 2.0F);
    ASSERT_EQ(engine.place_for(child, sum(0)).verdict, Place::Verdict::take);
    engine.peer_lost(child);
    EXPECT_THAT(std::get<Interrupted>(outcomes.at(now)).lost, ElementsAre(child));
    engine.dropped(child, sum(0));
    wires.owners.clear();
    EXPECT_EQ(engine.pool().used_bytes(), 0U);
}

TEST_F(Middle, APeerThatIsLostAlreadyInterruptsAtOnce) {
    engine.peer_lost(parent);
    begin(now);
    EXPECT_TRUE(std::holds_alternative<Interrupted>(outcomes.at(now)));
    engine.peer_back(parent);
    begin({5, 10});
    EXPECT_EQ(outcomes.size(), 1U);
    EXPECT_THAT(wires.cancelled, ElementsAre(now));
}

TEST_F(Middle, PlacesOutliveTheExchangeThatGaveThem) {
    begin(now);
    const Place up = engine.place_for(child, sum(0));
    deliver(child, sum(1), 2.0F);
    const Place down = engine.place_for(parent, result(1));
    ASSERT_EQ(up.verdict, Place::Verdict::take);
    ASSERT_EQ(down.verdict, Place::Verdict::take);
    engine.abandon();
    wires.owners.clear();
    EXPECT_EQ(engine.pool().used_bytes(), 512U) << "memory that the network writes to is not for others";
    auto next = test::hold(std::vector<float>(floats, 1.0F));
    ASSERT_TRUE(engine.begin({5, 10}, schedule, test::vectors_of(next)).ok());
    const std::weak_ptr<Holder> old = holder;
    holder.reset();
    // The network writes on, though nobody cares any more.
    std::memset(up.bytes.data(), 1, up.bytes.size());
    std::memset(down.bytes.data(), 1, down.bytes.size());
    engine.arrived(child, sum(0));
    EXPECT_FALSE(old.expired());
    engine.dropped(parent, result(1));
    EXPECT_TRUE(old.expired());
    EXPECT_EQ(engine.pool().used_bytes(), 0U);
}

TEST(Engine, AMemberWithAnotherPlanIsNamedByItsNeighboursAndNobodyCompletes) {
    const std::vector<NodeId> members = test::some_nodes(3, 1);
    const plan::SyncPlan plan = test::star_plan(3, 1000);
    Network network({.seed = 5});
    std::vector<std::shared_ptr<Holder>> holders;
    for (const NodeId node : members) network.add(node);
    for (std::uint32_t i = 0; i < 3; ++i) {
        holders.push_back(test::hold(std::vector<float>(1000, 1.0F)));
        const auto schedule = test::schedule_for(plan, members, members[i], {.chunk_bytes = i == 2 ? 1024U : 512U});
        ASSERT_TRUE(network.at(members[i]).engine->begin({1, 1}, schedule, test::vectors_of(holders[i])).ok());
    }
    network.run();
    const auto* refused = std::get_if<Refused>(&network.at(members[0]).outcomes.at({1, 1}));
    ASSERT_NE(refused, nullptr);
    EXPECT_EQ(refused->refusal.from, members[2]);
    EXPECT_TRUE(network.at(members[1]).outcomes.empty());
    network.at(members[1]).engine->abandon();
    EXPECT_TRUE(std::holds_alternative<Interrupted>(network.at(members[1]).outcomes.at({1, 1})));
}

TEST(Engine, TheNextExchangeMayBeginWhenOneEnds) {
    Wires wires;
    const NodeId self{1, 1};
    const auto schedule = test::schedule_for(test::star_plan(1, 9), {self}, self, {});
    const auto holder = test::hold(std::vector<float>(9, 2.0F));
    Engine* running = nullptr;
    std::uint64_t ended = 0;
    Engine engine(wires, {.ended =
                              [&](ExchangeId id, const Outcome& outcome) {
                                  EXPECT_TRUE(std::holds_alternative<Complete>(outcome));
                                  if (++ended == 5) return;
                                  const auto begun =
                                      running->begin({1, id.step + 1}, schedule, test::vectors_of(holder));
                                  EXPECT_TRUE(begun.ok());
                              },
                          .refused = [](const Refusal&) {}});
    running = &engine;
    ASSERT_TRUE(engine.begin({1, 1}, schedule, test::vectors_of(holder)).ok());
    EXPECT_EQ(ended, 5U);
    EXPECT_EQ(holder->output, holder->input);
}

}  // namespace
}  // namespace chaos::collective
