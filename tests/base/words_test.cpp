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

}  // namespace
}  // namespace chaos
