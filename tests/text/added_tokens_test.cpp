#include "text/added_tokens.h"

#include "text/document.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

using nlohmann::json;
using test::Document;
using test::error_of;
using Stage = AddedTokens::Stage;

json token(int id, const char* content) {
    return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
            {"rstrip", false}, {"normalized", false}, {"special", true}};
}

json with(json object, const char* flag) {
    object[flag] = true;
    return object;
}

Result<AddedTokens> parse(const std::vector<json>& list, const char* normalizer = nullptr) {
    const Document tokens(json(list).dump());
    const auto vocabulary = Vocabulary::parse(Document(R"({"a": 0, "<s>": 1})").field());
    if (normalizer == nullptr) return AddedTokens::parse(tokens.field(), *vocabulary, *Normalizer::parse(std::nullopt));
    const Document document(normalizer);
    return AddedTokens::parse(tokens.field(), *vocabulary, *Normalizer::parse(document.field()));
}

// The segments of `text` with a bar after each; a token shows its id before it.
std::string segments(const Result<AddedTokens>& added, std::string_view text, Stage stage = Stage::as_given) {
    if (!added) return added.error().message;
    std::string result;
    for (const auto& segment : added->split(text, stage)) {
        if (segment.id) result += std::to_string(*segment.id) + ":";
        EXPECT_EQ(segment.text.data(), text.data() + segment.offset);
        result += std::string(segment.text) + "|";
    }
    return result;
}

TEST(AddedTokens, None) {
    const auto vocabulary = Vocabulary::parse(Document(R"({"a": 0})").field());
    const auto added = AddedTokens::parse(std::nullopt, *vocabulary, *Normalizer::parse(std::nullopt));
    EXPECT_EQ(segments(added, "a <s>"), "a <s>|");
    EXPECT_EQ(segments(added, ""), "");
    EXPECT_EQ(added->end(), 0);
}

TEST(AddedTokens, IdsComeFromTheVocabularyOrFollowIt) {
    const auto added = parse({token(1, "<s>"), token(2, "<x>"), token(3, "<y>"), token(9, "")});
    ASSERT_TRUE(added.ok()) << error_of(added);
    EXPECT_EQ(added->id_of("<s>"), 1);
    EXPECT_EQ(added->id_of("<y>"), 3);
    EXPECT_EQ(added->id_of("a"), std::nullopt);
    EXPECT_EQ(added->end(), 4);
    EXPECT_EQ(added->token_of(2)->content, "<x>");
    EXPECT_EQ(added->token_of(0), nullptr);
    EXPECT_EQ(added->token_of(-1), nullptr);
}

TEST(AddedTokens, AreFoundLeftmostAndLongest) {
    const auto added = parse({token(2, "danc"), token(3, "nci"), token(4, "ing"), token(5, "dan"), token(6, "é")});
    EXPECT_EQ(segments(added, "dancing dan ncid"), "2:danc|4:ing| |5:dan| |3:nci|d|");
    EXPECT_EQ(segments(added, "danciéng"), "2:danc|i|6:é|ng|");
    EXPECT_EQ(segments(added, "ing"), "4:ing|");
}

TEST(AddedTokens, TakeWhiteSpaceAlong) {
    const auto left = parse({with(token(2, "<m>"), "lstrip")});
    EXPECT_EQ(segments(left, "a \n\u2003<m> b"), "a|2: \n\u2003<m>| b|");
    EXPECT_EQ(segments(left, "  <m>"), "2:  <m>|");
    const auto right = parse({with(token(2, "<m>"), "rstrip")});
    EXPECT_EQ(segments(right, "a <m>\t b"), "a |2:<m>\t |b|");
    // White space goes to the first of two neighbours.
    const auto both = parse({with(with(token(2, "<m>"), "rstrip"), "lstrip")});
    EXPECT_EQ(segments(both, " <m>  <m> "), "2: <m>  |2:<m> |");
}

TEST(AddedTokens, OnTheirOwnAsWords) {
    const auto added = parse({with(token(2, "ing"), "single_word")});
    EXPECT_EQ(segments(added, "dancing"), "dancing|");
    EXPECT_EQ(segments(added, "ing-ing_ éing ing"), "2:ing|-ing_ éing |2:ing|");
    EXPECT_EQ(segments(added, "ing½"), "2:ing|½|");
}

// A token passed over still hides others inside it, and one inside white space that was taken along is found again:
// both as in the reference implementation.
TEST(AddedTokens, SearchGoesOnBehindTheTokenItself) {
    const auto hidden = parse({with(token(2, "abc"), "single_word"), token(3, "bc")});
    EXPECT_EQ(segments(hidden, "xabc bc"), "xabc |3:bc|");
    const auto inside = parse({with(token(2, "<m>"), "rstrip"), token(3, "\n")});
    EXPECT_EQ(segments(inside, "<m> \nx"), "2:<m> \n|3:\n|x|");
}

TEST(AddedTokens, NormalizedOnesAreFoundAfterNormalization) {
    const char* llama2 = R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})";
    const auto added = parse({with(token(2, "my tool"), "normalized"), token(3, "<x>")}, llama2);
    EXPECT_EQ(segments(added, "use my tool<x>"), "use my tool|3:<x>|");
    EXPECT_EQ(segments(added, "▁use▁my▁tool<x>", Stage::normalized), "▁use|2:▁my▁tool|<x>|");
    EXPECT_EQ(added->token_of(2)->normal_form, "▁my▁tool");
    EXPECT_EQ(added->token_of(3)->normal_form, "<x>");
}

TEST(AddedTokens, SameContentTwice) {
    auto plain = token(2, "<x>");
    plain["special"] = false;
    const auto added = parse({token(2, "<x>"), with(plain, "lstrip")});
    EXPECT_EQ(segments(added, "a <x>"), "a|2: <x>|");
    EXPECT_TRUE(added->token_of(2)->special);
}

TEST(AddedTokens, Refusals) {
    EXPECT_EQ(error_of(parse({token(7, "<x>")})),
              "t.json: [0].id is 7, but '<x>' has the id 2 by the vocabulary and its place among the added tokens");
    EXPECT_EQ(error_of(parse({token(2, "<s>")})),
              "t.json: [0].id is 2, but '<s>' has the id 1 by the vocabulary and its place among the added tokens");
    EXPECT_EQ(error_of(parse({token(-1, "<x>")})), "t.json: [0].id must be a whole number from 0 to 4194303");
    EXPECT_EQ(error_of(parse({token(2, std::string(5000, 'x').c_str())})),
              "t.json: [0].content is longer than 4096 bytes");
    for (const char* key : {"content", "single_word", "lstrip", "rstrip", "normalized", "special", "id"}) {
        json broken = token(2, "<x>");
        broken.erase(key);
        EXPECT_EQ(error_of(parse({broken})), std::string("t.json: [0] has no '") + key + "'");
    }
}

}  // namespace
}  // namespace chaos::text
