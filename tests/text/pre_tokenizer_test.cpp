#include "text/pre_tokenizer.h"

#include "text/document.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

using test::Document;
using test::error_of;

// The words of `text`, with a bar after each.
std::string words(const std::string& json, std::string_view text, bool at_start = true) {
    const Document document(json);
    const auto pre_tokenizer = PreTokenizer::parse(document.field());
    if (!pre_tokenizer) return pre_tokenizer.error().message;
    std::string result;
    pre_tokenizer->split({text, at_start}, [&](std::string_view word) { result += std::string(word) + "|"; });
    return result;
}

std::string split(const char* behavior, bool invert, std::string_view text) {
    return words(std::string(R"({"type": "Split", "pattern": {"String": "-"}, "behavior": ")") + behavior +
                     R"(", "invert": )" + (invert ? "true" : "false") + "}",
                 text);
}

TEST(PreTokenizer, NothingToDo) {
    const auto pre_tokenizer = PreTokenizer::parse(std::nullopt);
    std::string result;
    pre_tokenizer->split({"a b", true}, [&](std::string_view word) { result += word; });
    EXPECT_EQ(result, "a b");
}

// The cases of the reference implementation's documentation.
TEST(PreTokenizer, SplitBehaviors) {
    const char* text = "the-final--countdown";
    EXPECT_EQ(split("Removed", false, text), "the|final|countdown|");
    EXPECT_EQ(split("Isolated", false, text), "the|-|final|-|-|countdown|");
    EXPECT_EQ(split("MergedWithPrevious", false, text), "the-|final-|-|countdown|");
    EXPECT_EQ(split("MergedWithNext", false, text), "the|-final|-|-countdown|");
    EXPECT_EQ(split("Contiguous", false, text), "the|-|final|--|countdown|");
}

TEST(PreTokenizer, SplitAtTheEnds) {
    EXPECT_EQ(split("MergedWithPrevious", false, "--a-"), "-|-|a-|");
    EXPECT_EQ(split("MergedWithNext", false, "-a--"), "-a|-|-|");
    EXPECT_EQ(split("Removed", false, "-"), "");
    EXPECT_EQ(split("Contiguous", false, "--"), "--|");
}

TEST(PreTokenizer, SplitInverted) {
    const char* text = "a--b";
    EXPECT_EQ(split("Removed", true, text), "-|-|");
    EXPECT_EQ(split("Isolated", true, text), "a|-|-|b|");
    EXPECT_EQ(split("MergedWithPrevious", true, text), "a|-|-b|");
    EXPECT_EQ(split("MergedWithNext", true, text), "a-|-|b|");
    EXPECT_EQ(split("Contiguous", true, text), "a|--|b|");
}

TEST(PreTokenizer, SplitBetweenCharacters) {
    EXPECT_EQ(words(R"({"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": false})", "aé"),
              "a|é|");
}

TEST(PreTokenizer, SplitByLlama3sExpression) {
    const char* json = R"({"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}})";
    EXPECT_EQ(words(json, "It'S  12345 o'clock!\n\n  x"), "It|'S| | |123|45| o|'clock|!\n\n| | x|");
    EXPECT_EQ(words(json, "tabs\t\tand   "), "tabs|\t|\tand|   |");
}

TEST(PreTokenizer, SplitByBloomsExpression) {
    EXPECT_EQ(words(R"({"type": "Split", "behavior": "Isolated", "invert": false,
        "pattern": {"Regex": " ?[^(\\s|[.,!?…。，、।۔،])]+"}})",
                    "Hi, you (there)."),
              "Hi|,| you| (|there|).|");
}

TEST(PreTokenizer, ByteLevel) {
    EXPECT_EQ(words(R"({"type": "ByteLevel", "add_prefix_space": false})", "Hello é's  42\n"), "Hello|ĠÃ©|'s|Ġ|Ġ42|Ċ|");
    EXPECT_EQ(words(R"({"type": "ByteLevel", "add_prefix_space": true, "use_regex": false})", "a b"), "ĠaĠb|");
    EXPECT_EQ(words(R"({"type": "ByteLevel", "add_prefix_space": true, "use_regex": false})", " a"), "Ġa|");
    // Every piece gets its space, not only the first.
    EXPECT_EQ(words(R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
        {"type": "ByteLevel", "add_prefix_space": true}]})",
                    "a12"),
              "Ġa|Ġ1|Ġ2|");
    // What follows it sees the alphabet.
    EXPECT_EQ(words(R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": false},
        {"type": "Split", "pattern": {"String": "Ġ"}, "behavior": "Isolated", "invert": false}]})",
                    "a b"),
              "a|Ġ|b|");
}

TEST(PreTokenizer, Metaspace) {
    const auto metaspace = [](const char* more) {
        return std::string(R"({"type": "Metaspace", "replacement": "▁")") + more + "}";
    };
    EXPECT_EQ(words(metaspace(""), "Hey  you "), "▁Hey|▁|▁you|▁|");
    EXPECT_EQ(words(metaspace(""), " a"), "▁a|");
    EXPECT_EQ(words(metaspace(""), "▁a"), "▁a|");
    EXPECT_EQ(words(metaspace(R"(, "prepend_scheme": "never")"), "a b"), "a|▁b|");
    EXPECT_EQ(words(metaspace(R"(, "prepend_scheme": "first")"), "a b"), "▁a|▁b|");
    EXPECT_EQ(words(metaspace(R"(, "prepend_scheme": "first")"), "a b", false), "a|▁b|");
    EXPECT_EQ(words(metaspace(R"(, "prepend_scheme": "first", "split": false)"), "a b"), "▁a▁b|");
    EXPECT_EQ(words(metaspace(R"(, "add_prefix_space": false)"), "a b"), "a|▁b|");
    // "first" is about the text: of the pieces that an earlier step made, only the first one.
    EXPECT_EQ(words(R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}]})",
                    "a1 b"),
              "▁a|1|▁b|");
}

TEST(PreTokenizer, Digits) {
    EXPECT_EQ(words(R"({"type": "Digits", "individual_digits": true})", "ab12½c3"), "ab|1|2|½|c|3|");
    EXPECT_EQ(words(R"({"type": "Digits", "individual_digits": false})", "12ab34½ 5"), "12|ab|34½| |5|");
}

TEST(PreTokenizer, Refusals) {
    EXPECT_EQ(
        words(R"({"type": "Whitespace"})", ""),
        "t.json: type is 'Whitespace', which is not supported (only Split, ByteLevel, Metaspace, Digits or Sequence)");
    EXPECT_EQ(words(R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}]})", ""),
              "t.json: pretokenizers[0] has no 'add_prefix_space'");
    EXPECT_EQ(words(R"({"type": "Digits"})", ""), "t.json has no 'individual_digits'");
    EXPECT_EQ(words(R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Dropped", "invert": false})", ""),
              "t.json: behavior is 'Dropped', which is not supported (only Removed, Isolated, MergedWithPrevious, "
              "MergedWithNext or Contiguous)");
    EXPECT_EQ(
        words(R"({"type": "Split", "pattern": {"Regex": "[a&&b]"}, "behavior": "Isolated", "invert": false})", ""),
        "t.json: pattern.Regex uses an intersection of classes (&&), which is not supported");
}

}  // namespace
}  // namespace chaos::text
