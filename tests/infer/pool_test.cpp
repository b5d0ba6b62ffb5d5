#include "infer/pool.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace chaos::infer {
namespace {

using Clock = std::chrono::steady_clock;

TEST(Pool, EveryChunkIsDoneOnceAndBeforeRunReturns) {
    for (const std::size_t threads : {1U, 2U, 3U, 8U}) {
        Pool pool(threads);
        EXPECT_EQ(pool.threads(), threads);
        std::vector<int> done;
        for (std::size_t round = 0; round < 5000; ++round) {
            const std::size_t chunks = round % 23;
            done.assign(chunks, 0);
            pool.run(chunks, [&](std::size_t chunk) { ++done[chunk]; });
            ASSERT_EQ(done, std::vector<int>(chunks, 1)) << threads << " threads, round " << round;
        }
    }
}

// A busy machine may keep a thread from its core for long, but not for ever.
constexpr std::chrono::seconds patience{60};

// Asks until it is so; whether it was at last.
template <class Condition>
bool eventually(Clock::time_point until, const Condition& condition) {
    while (!condition())
        if (Clock::now() > until) return false;
    return true;
}

void compute_for(Clock::duration time) {
    const auto until = Clock::now() + time;
    while (Clock::now() < until) {
    }
}

// Whether a thread of this process waits in the kernel.
bool sleeps(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name_end = line.rfind(')');
    return name_end != std::string::npos && line.substr(name_end, 3) == ") S";
}

TEST(Pool, SleepingThreadsWakeUpAndHelp) {
    Pool pool(2);
    const pid_t caller = ::gettid();
    const auto until = Clock::now() + patience;
    for (int round = 0; round < 20; ++round) {
        std::atomic<pid_t> helper{0};
        const auto helps = [&] {
            pool.run(64, [&](std::size_t) {
                if (::gettid() != caller) helper = ::gettid();
                std::this_thread::yield();
            });
            return helper != 0;
        };
        ASSERT_TRUE(eventually(until, helps)) << "round " << round;
        const auto asleep = [&] {
            std::this_thread::yield();
            return sleeps(helper);
        };
        ASSERT_TRUE(eventually(until, asleep)) << "round " << round;
    }
}

TEST(Pool, WhoSavedMuchMayBeLateOnce) {
    Pool pool(2);
    const std::thread::id caller = std::this_thread::get_id();
    constexpr std::chrono::microseconds work{50};
    // How many chunks the other thread took; the first of them takes it longer by so much.
    const auto taken_by_other = [&](std::chrono::milliseconds late) {
        std::atomic<int> taken{0};
        pool.run(64, [&](std::size_t) {
            if (std::this_thread::get_id() != caller && taken++ == 0) std::this_thread::sleep_for(late);
            compute_for(work);
        });
        return taken.load();
    };
    const auto until = Clock::now() + patience;
    const auto goes_on = [&] {
        Clock::duration saved{};
        const auto saved_much = [&] {
            saved += taken_by_other(std::chrono::milliseconds(0)) * work;
            return saved >= std::chrono::milliseconds(20);
        };
        const auto was_late = [&] { return taken_by_other(std::chrono::milliseconds(5)) > 0; };
        if (!eventually(until, saved_much) || !eventually(until, was_late)) return false;
        // Whoever rests does so for longer than the run that shows it to be at work.
        const auto asked = Clock::now();
        return taken_by_other(std::chrono::milliseconds(0)) > 0 && Clock::now() - asked < std::chrono::milliseconds(5);
    };
    // A busy machine may keep the other thread from the one chance that it gets.
    EXPECT_TRUE(eventually(until, goes_on));
}

TEST(Pool, OneOfSeveralIsNotExcusedByWhatTheOthersSave) {
    Pool pool(4);
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<std::thread::id> late{};
    // Whether the late thread helped: it takes much longer than all others together.
    const auto late_helped = [&] {
        std::atomic<bool> helped{false};
        pool.run(64, [&](std::size_t) {
            const std::thread::id self = std::this_thread::get_id();
            std::thread::id nobody{};
            if (self != caller) late.compare_exchange_strong(nobody, self);
            if (self == late.load()) {
                helped = true;
                return std::this_thread::sleep_for(std::chrono::milliseconds(4));
            }
            compute_for(std::chrono::microseconds(50));
        });
        return helped.load();
    };
    const auto until = Clock::now() + patience;
    // It rests again and again, and with it, at times, those that are punctual.
    const auto mostly_rests = [&] {
        constexpr int rounds = 100;
        int with_it = 0;
        for (int round = 0; round < rounds; ++round) with_it += late_helped() ? 1 : 0;
        return with_it > 0 && with_it < rounds / 2;
    };
    EXPECT_TRUE(eventually(until, mostly_rests));
}

TEST(Pool, TimeWithoutWorkDoesNotMakeALateThreadPunctual) {
    const std::thread::id caller = std::this_thread::get_id();
    const auto until = Clock::now() + patience;
    const auto stays_late = [&] {
        Pool pool(2);
        // Whether the other thread took a chunk, which takes it so long.
        const auto helped = [&](std::chrono::milliseconds chunk) {
            std::atomic<bool> other{false};
            pool.run(64, [&](std::size_t) {
                if (std::this_thread::get_id() == caller) return std::this_thread::yield();
                std::this_thread::sleep_for(chunk);
                other = true;
            });
            return other.load();
        };
        const auto is_late = [&] { return helped(std::chrono::milliseconds(30)); };
        const auto is_punctual = [&] { return helped(std::chrono::milliseconds(0)); };
        // Rests of 5, 10, 20, 40 and 80 ms.
        for (int i = 0; i < 5; ++i)
            if (!eventually(until, is_late)) return false;
        // Time without work, longer than the next rest.
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        if (!eventually(until, is_punctual) || !eventually(until, is_late)) return false;
        const auto rests_from = Clock::now();
        return eventually(until, is_punctual) && Clock::now() - rests_from >= std::chrono::milliseconds(100);
    };
    // Where the caller itself does not get to run, it sees nobody come late.
    EXPECT_TRUE(eventually(until, stays_late));
}

}  // namespace
}  // namespace chaos::infer
