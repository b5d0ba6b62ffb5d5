// A member's steps as the core orders them: of a member that is alone, so that nothing but the order of events matters.
#include "elastic/steps.h"

#include "net/credential.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace chaos::elastic {
namespace {

constexpr std::uint32_t batch = 8;
constexpr std::size_t floats = 1000;

// Computes when it may, and writes down what it is asked to. Every sample adds 1.
class PatientLearner final : public Learner {
public:
    Result<void> compute(const Task& task, std::span<float> into) override {
        log_ += "compute " + std::to_string(task.step) + "; ";
        ++begun;
        while (waits) std::this_thread::yield();
        for (const auto [begin, end] : task.more)
            for (float& value : into) value += static_cast<float>(end - begin);
        ++done;
        return {};
    }
    cluster::Name apply(std::uint64_t step, const cluster::View&, std::span<const float> result) override {
        for (const float value : result) wrong += value != batch ? 1 : 0;
        return cluster::Name{static_cast<std::uint8_t>(step + 1)};
    }
    void replace() { log_ += "replace; "; }
    // Once it is known to be idle.
    [[nodiscard]] const std::string& log() const { return log_; }

    std::atomic<bool> waits = false;
    std::atomic<int> begun = 0;
    std::atomic<int> done = 0;
    std::atomic<int> wrong = 0;

private:
    std::string log_;
};

// The whole cluster.
class Hermit final : public live::Worker {
public:
    explicit Hermit(collective::Encoding encoding = collective::Encoding::fp32)
        : steps(loop, learner, floats, encoding,
                {.applied = [this](std::uint64_t step, const cluster::Name&) { applied = step + 1; },
                 .computed = [](std::uint64_t, std::chrono::nanoseconds) {},
                 .note = [this](const std::string& text) { notes += text + "\n"; },
                 .failed = [this](const Error& why) { failed(why); }}),
          member(loop, key_, net::vouch_for(institution_, key_.public_key(), 4'000'000'000), sha256("hermit"), {},
                 *this, steps) {
        steps.connect(member);
        EXPECT_TRUE(member.start());
    }

    bool wait(const std::function<bool()>& condition) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!condition()) {
            if (std::chrono::steady_clock::now() > limit) return false;
            loop.restart();
            loop.run_one_for(std::chrono::milliseconds(100));
        }
        return true;
    }

    // The learner is in the middle of the first step.
    void begin() {
        learner.waits = true;
        member.found(batch, false);
        ASSERT_TRUE(wait([&] { return learner.begun == 1; })) << notes;
    }

    void adopted(const ViewPtr&) override {}
    void start_step(std::uint64_t step, const ViewPtr& view) override { steps.start_step(step, view); }
    void stop_step() override { steps.stop_step(); }
    void take_result(std::uint64_t step, const std::vector<NodeId>& holders) override {
        steps.take_result(step, holders);
    }
    void restore(std::uint64_t, const cluster::Name&) override {}
    void begin_sync(const ViewPtr&) override {}
    void activated(std::uint64_t, const ViewPtr&) override {}
    void excluded(const std::string& why, bool) override { note(why); }
    void left() override {}
    void stable(std::uint64_t) override {}
    void link_up(NodeId peer) override { steps.link_up(peer); }
    void link_down(NodeId peer) override { steps.link_down(peer); }
    void received(NodeId from, std::span<const std::uint8_t> message) override { (void)steps.received(from, message); }
    void note(const std::string& text) override { notes += text + "\n"; }
    void failed(const Error& why) override { note(why.message); }

    net::asio::io_context loop{1};
    PatientLearner learner;
    std::uint64_t applied = 0;
    std::string notes;
    Steps steps;

private:
    net::SecretKey institution_ = net::SecretKey::generate();
    net::SecretKey key_ = net::SecretKey::generate();

public:
    live::Member member;
};

TEST(Steps, ReplaceTheStateWhileTheLearnerIsAtWork) {
    Hermit hermit;
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
    Hermit hermit;
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
        Hermit hermit(encoding);
        hermit.member.found(batch, false);
        EXPECT_TRUE(hermit.wait([&] { return hermit.applied >= 20; })) << hermit.notes;
        hermit.member.stop();
        if (encoding != collective::Encoding::int8) {  // which is exact by chance only
            EXPECT_EQ(hermit.learner.wrong, 0);
        }
    }
}

TEST(Steps, CommitAfterWhatTheCoreOrdersAtOnce) {
    Hermit hermit;
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
