#include "collective/buffer_pool.h"

#include <gtest/gtest.h>

namespace chaos::collective {
namespace {

TEST(BufferPool, GivesTheSameMemoryAgainAndKeepsNoMoreThanItMay) {
    BufferPool pool(300);
    Buffer first = pool.take(200);
    const std::byte* place = first.get();
    Buffer second = pool.take(200);
    EXPECT_EQ(pool.used_bytes(), 400U);
    first.reset();
    EXPECT_EQ(pool.idle_bytes(), 200U);
    second.reset();
    EXPECT_EQ(pool.idle_bytes(), 200U);
    EXPECT_EQ(pool.used_bytes(), 0U);
    const Buffer third = pool.take(200);
    EXPECT_EQ(third.get(), place);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(third.get()) % 64, 0U);
    EXPECT_EQ(pool.idle_bytes(), 0U);
}

TEST(BufferPool, SizesThatNobodyAsksForAnyMoreAreForgotten) {
    BufferPool pool;
    for (const std::uint64_t bytes : {100U, 200U, 300U}) (void)pool.take(bytes);
    EXPECT_EQ(pool.idle_bytes(), 600U);
    for (int i = 0; i < 5000; ++i) (void)pool.take(200);
    (void)pool.take(400);
    EXPECT_EQ(pool.idle_bytes(), 600U);
    EXPECT_EQ(pool.used_bytes(), 0U);
}

TEST(BufferPool, BuffersOutliveIt) {
    Buffer buffer;
    {
        BufferPool pool;
        buffer = pool.take(64);
    }
    buffer.get()[63] = std::byte{1};
}

}  // namespace
}  // namespace chaos::collective
