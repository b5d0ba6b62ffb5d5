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
    for (int round = 0; round < 20; ++round) {
        std::atomic<pid_t> helper{0};
        while (helper == 0) {
            pool.run(64, [&](std::size_t) {
                if (::gettid() != caller) helper = ::gettid();
                std::this_thread::yield();
            });
        }
        while (!sleeps(helper)) std::this_thread::yield();
    }
}

TEST(Pool, WhoSavedMuchMayBeLateOnce) {
    using Clock = std::chrono::steady_clock;
    Pool pool(2);
    const std::thread::id caller = std::this_thread::get_id();
    constexpr std::chrono::microseconds work{50};
    // How many chunks the other thread took; the first of them takes it longer by so much.
    const auto taken_by_other = [&](std::chrono::milliseconds late) {
        std::atomic<int> taken{0};
        pool.run(64, [&](std::size_t) {
            if (std::this_thread::get_id() != caller && taken++ == 0) std::this_thread::sleep_for(late);
            const auto until = Clock::now() + work;
            while (Clock::now() < until) {
            }
        });
        return taken.load();
    };
    const auto goes_on = [&] {
        for (Clock::duration saved{}; saved < std::chrono::milliseconds(20);)
            saved += taken_by_other(std::chrono::milliseconds(0)) * work;
        while (taken_by_other(std::chrono::milliseconds(5)) == 0) {
        }
        return taken_by_other(std::chrono::milliseconds(0)) > 0;
    };
    // A busy machine may keep the other thread from the one chance that it gets.
    bool once = false;
    for (int trial = 0; trial < 5 && !once; ++trial) once = goes_on();
    EXPECT_TRUE(once);
}

TEST(Pool, OneOfSeveralIsNotExcusedByWhatTheOthersSave) {
    using Clock = std::chrono::steady_clock;
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
            const auto until = Clock::now() + std::chrono::microseconds(50);
            while (Clock::now() < until) {
            }
        });
        return helped.load();
    };
    // It rests ever longer, and with it, at times, those that are punctual.
    int rounds = 0;
    int with_it = 0;
    for (const auto until = Clock::now() + std::chrono::milliseconds(500); Clock::now() < until; ++rounds)
        with_it += late_helped() ? 1 : 0;
    EXPECT_GT(with_it, 0);
    EXPECT_LT(with_it, rounds / 2);
}

TEST(Pool, TimeWithoutWorkDoesNotMakeALateThreadPunctual) {
    using Clock = std::chrono::steady_clock;
    Pool pool(2);
    const std::thread::id caller = std::this_thread::get_id();
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
    constexpr std::chrono::milliseconds late{30};
    constexpr std::chrono::milliseconds punctual{0};
    const auto stays_late = [&] {
        // Rests of 5, 10, 20, 40 and 80 ms.
        for (int i = 0; i < 5; ++i)
            while (!helped(late)) {
            }
        // Longer than the next rest.
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        while (!helped(punctual)) {
        }
        while (!helped(late)) {
        }
        const auto until = Clock::now() + std::chrono::milliseconds(100);
        while (Clock::now() < until)
            if (helped(punctual) && Clock::now() < until) return false;
        return true;
    };
    // Where the caller itself does not get to run, it sees nobody come late.
    bool once = false;
    for (int trial = 0; trial < 5 && !once; ++trial) once = stays_late();
    EXPECT_TRUE(once);
}

}  // namespace
}  // namespace chaos::infer
