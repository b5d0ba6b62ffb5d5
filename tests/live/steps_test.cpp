// A member's steps as the core orders them.
#include "elastic/steps.h"

#include "live/hermit.h"
#include "proto/elastic.pb.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace chaos::elastic {
namespace {

TEST(Steps, ReplaceTheStateWhileTheLearnerIsAtWork) {
    net::asio::io_context loop{1};
    Hermit hermit(loop);
    hermit.begin();
    hermit.steps.begin_at(0, {}, [&] { hermit.learner.replace(); });
    hermit.steps.start_step(0, hermit.member.core().view());
    EXPECT_EQ(hermit.learner.done, 0);
    hermit.learner.waits = false;
    ASSERT_TRUE(hermit.wait([&] { return hermit.applied >= 3; })) << hermit.notes;
    hermit.member.stop();
    EXPECT_TRUE(hermit.learner.log().starts_with("compute 0; replace; compute 0; compute 1; ")) << hermit.learner.log();
    EXPECT_EQ(hermit.learner.wrong, 0);
}

// The pool of the encoded results knows one thread: what the compute thread works with is let go by the loop.
TEST(Steps, LetGoOfWhatWasComputedInTheLoop) {
    net::asio::io_context loop{1};
    Hermit hermit(loop);
    hermit.begin();
    std::thread::id by;
    std::atomic<bool> let_go = false;
    std::shared_ptr<const void> held(&by, [&](const void*) {
        by = std::this_thread::get_id();
        let_go = true;
    });
    hermit.steps.begin_at(0, {}, [held = std::move(held)] {});
    hermit.learner.waits = false;
    ASSERT_TRUE(hermit.wait([&] { return let_go.load(); }));
    EXPECT_EQ(by, std::this_thread::get_id());
}

void ask(Hermit& asker, Hermit& holder, std::uint64_t step, std::uint64_t transfer) {
    wire::Work message;
    message.mutable_result_ask()->set_step(step);
    message.mutable_result_ask()->set_transfer(transfer);
    const std::string bytes = message.SerializeAsString();
    EXPECT_TRUE(asker.member.links().send_work(holder.member.id(),
                                               {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}));
}

TEST(Steps, GiveResultsToMembersOneAtATime) {
    constexpr std::size_t many_floats = 1 << 20;
    constexpr std::uint64_t result = many_floats * sizeof(float);
    net::asio::io_context loop{1};
    Hermit founder(loop, collective::Encoding::fp32, many_floats);
    Hermit newcomer(loop, collective::Encoding::fp32, many_floats);
    Hermit stranger(loop);
    founder.member.found(batch, false);
    newcomer.member.join({founder.member.address()});
    stranger.member.links().dial(founder.member.id(), founder.member.address());
    ASSERT_TRUE(founder.wait([&] {
        return newcomer.let_in && founder.applied > 0 && stranger.member.links().linked(founder.member.id());
    })) << founder.notes
        << newcomer.notes;
    founder.learner.waits = true;
    ASSERT_TRUE(founder.wait([&] { return founder.learner.waiting && founder.applied == founder.steps.committed(); }));
    const std::uint64_t step = founder.applied - 1;

    ask(stranger, founder, step, 1);
    ASSERT_TRUE(founder.wait([&] { return !stranger.work.empty(); }));
    wire::Work answer;
    ASSERT_TRUE(answer.ParseFromString(stranger.work.front()));
    EXPECT_TRUE(answer.result_answer().absent());

    constexpr std::uint64_t asks = 300;
    for (std::uint64_t transfer = 1; transfer <= asks; ++transfer) ask(newcomer, founder, step, transfer);
    ASSERT_TRUE(founder.wait([&] { return newcomer.result_bytes[asks] == result; })) << founder.notes;
    std::uint64_t all = 0;
    for (const auto& [transfer, bytes] : newcomer.result_bytes) all += bytes;
    EXPECT_LT(all, asks * result / 5);
    founder.learner.waits = false;
}

TEST(Steps, TakeResultsFromNeighboursOfTheHolders) {
    net::asio::io_context loop{1};
    Hermit founder(loop);
    Hermit newcomer(loop);
    const Hermit holder(loop);  // whom the newcomer has no link with
    founder.member.found(batch, false);
    newcomer.member.join({founder.member.address()});
    ASSERT_TRUE(founder.wait([&] { return newcomer.let_in; })) << founder.notes << newcomer.notes;
    newcomer.member.tell(cluster::Synced{.applied = founder.applied, .root = {}});
    const NodeId self = newcomer.member.id();
    ASSERT_TRUE(founder.wait([&] { return newcomer.member.core().view()->is_active(self); })) << newcomer.notes;
    const std::uint64_t first = newcomer.member.core().view()->find(self)->first_step;
    newcomer.steps.begin_at(first, cluster::Name{static_cast<std::uint8_t>(first)}, [] {});
    newcomer.member.tell(cluster::Applied{first - 1});
    ASSERT_TRUE(founder.wait([&] { return newcomer.applied > first; })) << founder.notes << newcomer.notes;

    founder.learner.waits = true;
    ASSERT_TRUE(founder.wait([&] {
        return founder.learner.waiting && founder.applied == founder.steps.committed() &&
               newcomer.applied == founder.applied;
    }));
    const std::uint64_t step = founder.applied - 1;
    newcomer.steps.stop_step();
    newcomer.applied = 0;
    newcomer.steps.begin_at(step, cluster::Name{static_cast<std::uint8_t>(step)}, [] {});
    newcomer.steps.take_result(step, {holder.member.id()});
    EXPECT_TRUE(founder.wait([&] { return newcomer.applied == step + 1; })) << newcomer.notes;
    founder.learner.waits = false;
}

TEST(Steps, TakePlaceInEveryEncoding) {
    for (const auto encoding : {collective::Encoding::fp32, collective::Encoding::fp16, collective::Encoding::int8}) {
        net::asio::io_context loop{1};
        Hermit hermit(loop, encoding);
        hermit.member.found(batch, false);
        EXPECT_TRUE(hermit.wait([&] { return hermit.applied >= 20; })) << hermit.notes;
        hermit.member.stop();
        if (encoding != collective::Encoding::int8) {  // which is exact by chance only
            EXPECT_EQ(hermit.learner.wrong, 0);
        }
    }
}

TEST(Steps, CommitAfterWhatTheCoreOrdersAtOnce) {
    net::asio::io_context loop{1};
    Hermit hermit(loop);
    hermit.begin();
    hermit.steps.stop_step();
    hermit.learner.waits = false;
    // Nothing but the exchange, of a member with itself, is left to be done, as soon as the loop has heard of it.
    ASSERT_TRUE(hermit.wait([&] { return hermit.learner.done == 1 && !hermit.thread.busy(); }));
    hermit.steps.start_step(0, hermit.member.core().view());
    EXPECT_EQ(hermit.steps.committed(), 0U);
    EXPECT_TRUE(hermit.wait([&] { return hermit.applied >= 3; })) << hermit.notes;
    hermit.member.stop();
    EXPECT_EQ(hermit.learner.wrong, 0);
}

}  // namespace
}  // namespace chaos::elastic
