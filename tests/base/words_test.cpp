#include "base/words.h"

#include <gtest/gtest.h>
#include <array>

namespace chaos {
namespace {

constexpr std::array<std::string_view, 3> words = {"learning_rate", "weight_decay", "kind"};

TEST(Words, SuggestsTheNearest) {
    EXPECT_EQ(nearest_word("learnin_rate", words), "learning_rate");
    EXPECT_EQ(nearest_word("knd", words), "kind");
}

TEST(Words, SuggestsNothingForAnUnrelatedWord) {
    EXPECT_EQ(nearest_word("zzzzzz", words), "");
}

TEST(Words, ListsInEnglish) {
    EXPECT_EQ(one_of(words), "learning_rate, weight_decay or kind");
    EXPECT_EQ(one_of(std::span(words).first(1)), "learning_rate");
}

TEST(Words, OfOthersAreShortAndHarmless) {
    EXPECT_EQ(printable("the run is another"), "the run is another");
    EXPECT_EQ(printable("a\nb\x1b[2J\xff"), "a?b?[2J?");
    EXPECT_EQ(printable(std::string(4 << 20, 'x')), std::string(max_quoted_bytes, 'x') + "...");
}

}  // namespace
}  // namespace chaos
