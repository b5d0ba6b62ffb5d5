// A member's steps as the core orders them.
#include "elastic/steps.h"

#include "live/hermit.h"

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
    // (Where that takes longer than here, this test sees nothing wrong.)
    ASSERT_TRUE(hermit.wait([&] { return hermit.learner.done == 1; }));
    hermit.loop.restart();
    hermit.loop.run_for(std::chrono::milliseconds(100));
    hermit.steps.start_step(0, hermit.member.core().view());
    EXPECT_EQ(hermit.steps.committed(), 0U);
    EXPECT_TRUE(hermit.wait([&] { return hermit.applied >= 3; })) << hermit.notes;
    hermit.member.stop();
    EXPECT_EQ(hermit.learner.wrong, 0);
}

}  // namespace
}  // namespace chaos::elastic
