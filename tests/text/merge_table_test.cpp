#include "text/merge_table.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

TEST(MergeTable, FindsWhatWasSet) {
    constexpr TokenId count = 1000;
    MergeTable table(count);
    for (TokenId id = 0; id < count; ++id) table.set(id % 30, id, {static_cast<std::uint32_t>(id), id + 7});
    for (TokenId id = 0; id < count; ++id) {
        const MergeTable::Merge* merge = table.find(id % 30, id);
        ASSERT_NE(merge, nullptr);
        EXPECT_EQ(merge->rank, static_cast<std::uint32_t>(id));
        EXPECT_EQ(merge->id, id + 7);
        EXPECT_EQ(table.find(id, count), nullptr);
    }
}

TEST(MergeTable, TheLastOfEqualPairsHolds) {
    MergeTable table(2);
    table.set(1, 2, {0, 3});
    table.set(1, 2, {5, 4});
    EXPECT_EQ(table.find(1, 2)->rank, 5U);
    EXPECT_EQ(table.find(2, 1), nullptr);
}

TEST(MergeTable, Empty) {
    EXPECT_EQ(MergeTable(0).find(0, 0), nullptr);
}

}  // namespace
}  // namespace chaos::text
