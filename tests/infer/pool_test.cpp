#include "infer/pool.h"

#include <gtest/gtest.h>

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

TEST(Pool, SleepingThreadsWakeUpAndHelp) {
    Pool pool(2);
    const std::thread::id caller = std::this_thread::get_id();
    for (int round = 0; round < 20; ++round) {
        std::atomic<bool> helped{false};
        while (!helped) {
            pool.run(64, [&](std::size_t) {
                if (std::this_thread::get_id() != caller) helped = true;
                std::this_thread::yield();
            });
        }
        // Long enough for the worker to fall asleep.
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace
}  // namespace chaos::infer
