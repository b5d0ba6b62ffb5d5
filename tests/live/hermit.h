// A member that is a cluster by itself, for tests: nothing but the order of events matters.
#pragma once

#include "elastic/steps.h"
#include "net/credential.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace chaos::elastic {
inline constexpr std::uint32_t batch = 8;

// Computes when it may, and writes down what it is asked to. Every sample adds 1.
class PatientLearner final : public Learner {
public:
    Result<std::chrono::nanoseconds> compute(const Task& task, std::span<float> into) override {
        write("compute " + std::to_string(task.step) + "; ");
        ++begun;
        for (; waits; std::this_thread::yield()) waiting = true;
        waiting = false;
        for (const auto [begin, end] : task.more)
            for (float& value : into) value += static_cast<float>(end - begin);
        ++done;
        return std::chrono::nanoseconds{1};
    }
    cluster::Name apply(std::uint64_t step, const cluster::View&, std::span<const float> result,
                        const state::ResultDigest&) override {
        for (const float value : result) wrong += value != batch ? 1 : 0;
        return cluster::Name{static_cast<std::uint8_t>(step + 1)};
    }
    void replace() { write("replace; "); }
    [[nodiscard]] std::string log() const {
        const std::lock_guard guard(reading_);
        return log_;
    }

    std::atomic<bool> waits = false;
    std::atomic<bool> waiting = false;
    std::atomic<int> begun = 0;
    std::atomic<int> done = 0;
    std::atomic<int> wrong = 0;

private:
    void write(const std::string& what) {
        const std::lock_guard guard(reading_);
        log_ += what;
    }

    mutable std::mutex reading_;  // the test reads while the compute thread may go on
    std::string log_;
};

// The whole cluster, until somebody joins it.
class Hermit final : public live::Worker, public net::BulkReceiver {
public:
    explicit Hermit(net::asio::io_context& shared, collective::Encoding encoding = collective::Encoding::fp32,
                    std::size_t floats = 1000)
        : loop(shared),
          steps(loop, thread, learner, {.gradient = floats, .rest = 0}, encoding,
                {.applied = [this](const AppliedStep& step) { applied = step.step + 1; },
                 .computed = [](std::uint64_t, std::chrono::nanoseconds) {},
                 .note = [this](const std::string& text) { notes += text + "\n"; },
                 .failed = [this](const Error& why) { failed(why); }}),
          member(loop, key_, net::vouch_for(institution(), key_.public_key(), 4'000'000'000), sha256("hermit"),
                 options(), *this, *this) {
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
    void begin_sync(const ViewPtr&) override { let_in = true; }
    void activated(std::uint64_t, const ViewPtr&) override {}
    void excluded(const std::string& why, bool) override { note(why); }
    void left() override {}
    void stable(std::uint64_t) override {}
    void link_up(NodeId peer) override { steps.link_up(peer); }
    void link_down(NodeId peer) override { steps.link_down(peer); }
    void received(NodeId from, std::span<const std::uint8_t> message) override {
        work.emplace_back(message.begin(), message.end());
        const auto parsed = work_from(message);
        ASSERT_TRUE(parsed) << parsed.error().message;
        EXPECT_TRUE(steps.received(from, *parsed));
    }
    void note(const std::string& text) override { notes += text + "\n"; }
    void failed(const Error& why) override { note(why.message); }

    Place place_for(NodeId from, const net::BulkHead& head) override {
        if (head.kind == net::BulkKind::results) result_bytes[head.first] += head.bytes;
        return steps.place_for(from, head);
    }
    void arrived(NodeId from, const net::BulkHead& head) override { steps.arrived(from, head); }
    void dropped(NodeId from, const net::BulkHead& head) override { steps.dropped(from, head); }

    net::asio::io_context& loop;
    PatientLearner learner;
    std::uint64_t applied = 0;
    bool let_in = false;
    std::vector<std::string> work;                        // messages that came
    std::map<std::uint64_t, std::uint64_t> result_bytes;  // that came, by transfer
    std::string notes;
    ComputeThread thread{loop};
    Steps steps;

private:
    static const net::SecretKey& institution() {
        static const net::SecretKey key = net::SecretKey::generate();
        return key;
    }
    static live::Options options() {
        live::Options options;
        options.listen = {"127.0.0.1:0"};
        return options;
    }
    net::SecretKey key_ = net::SecretKey::generate();

public:
    live::Member member;
};

}  // namespace chaos::elastic
