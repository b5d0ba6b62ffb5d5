#include "text/vocabulary.h"

#include "text/document.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

using test::Document;
using test::error_of;

TEST(Vocabulary, BothWays) {
    const auto parsed = Vocabulary::parse(Document(R"({"a": 0, "": 3, "ab": 1})").field());
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->size(), 3U);
    EXPECT_EQ(parsed->end(), 4);
    EXPECT_EQ(parsed->id_of("ab"), 1);
    EXPECT_EQ(parsed->id_of(""), 3);
    EXPECT_EQ(parsed->id_of("b"), std::nullopt);
    EXPECT_EQ(*parsed->token_of(1), "ab");
    for (const TokenId id : {2, -1, 4, std::numeric_limits<TokenId>::max()}) EXPECT_EQ(parsed->token_of(id), nullptr);
}

TEST(Vocabulary, StaysValidWhenMoved) {
    auto parsed = Vocabulary::parse(Document(R"({"a": 0, "b": 1})").field());
    const Vocabulary moved = std::move(parsed).value();
    EXPECT_EQ(*moved.token_of(1), "b");
    EXPECT_EQ(moved.id_of("a"), 0);
}

TEST(Vocabulary, Refusals) {
    const auto refusal = [](const char* json) { return error_of(Vocabulary::parse(Document(json).field())); };
    EXPECT_EQ(refusal("[]"), "t.json must be an object of tokens and ids");
    EXPECT_EQ(refusal("{}"), "t.json has no tokens");
    EXPECT_EQ(refusal(R"({"a": 1, "b": 1})"), "t.json gives 'a' and 'b' the same id 1");
    for (const char* id : {"-1", "1.5", "\"1\"", "null", "4194304", "18446744073709551615"}) {
        EXPECT_EQ(refusal((std::string(R"({"a": )") + id + "}").c_str()),
                  "t.json gives 'a' an id that is not a whole number from 0 to 4194303");
    }
}

}  // namespace
}  // namespace chaos::text
