#include "text/trie.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

TEST(Trie, FindsTheLongest) {
    Trie trie;
    EXPECT_TRUE(trie.empty());
    trie.add("ab", 1);
    trie.add("abcd", 2);
    trie.add("b", 3);
    trie.add("ab", 4);
    trie.add("", 5);
    EXPECT_FALSE(trie.empty());
    EXPECT_EQ(trie.longest_at("abcde", 0)->id, 2);
    EXPECT_EQ(trie.longest_at("abcde", 0)->bytes, 4U);
    EXPECT_EQ(trie.longest_at("abcx", 0)->id, 1);
    EXPECT_EQ(trie.longest_at("xb", 1)->id, 3);
    EXPECT_FALSE(trie.longest_at("xb", 0).has_value());
    EXPECT_FALSE(trie.longest_at("xb", 2).has_value());
    EXPECT_FALSE(trie.longest_at("a", 0).has_value());
}

TEST(Trie, SkipsToWhereAMatchMayBegin) {
    Trie trie;
    trie.add("<a>", 1);
    trie.add("é", 2);
    EXPECT_EQ(trie.next_start("xx<é", 0), 2U);
    EXPECT_EQ(trie.next_start("xx<é", 3), 3U);
    EXPECT_EQ(trie.next_start("xx<é", 4), 5U);
    EXPECT_EQ(trie.next_start("", 0), 0U);
}

}  // namespace
}  // namespace chaos::text
