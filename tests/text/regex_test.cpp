#include "text/regex.h"

#include "text/document.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

// The first match at or after `from`, or "(none)".
std::string found(const char* pattern, std::string_view text, std::size_t from = 0) {
    const auto regex = Regex::compile(pattern);
    if (!regex) return regex.error().message;
    const auto range = regex->find(text, from);
    return range ? std::string(text.substr(range->begin, range->end - range->begin)) : "(none)";
}

TEST(Regex, KnowsUnicode) {
    EXPECT_EQ(found(R"(\p{L}+)", "1 Ünïcödé 2"), "Ünïcödé");
    EXPECT_EQ(found(R"(\p{N}+)", "x½٣"), "½٣");
    EXPECT_EQ(found("(?i:É)", "é"), "é");
    EXPECT_EQ(found(".", "🤖"), "🤖");
    // Oniguruma's \w has marks in it and its \s has no Mongolian vowel separator.
    EXPECT_EQ(found(R"(\w+)", "e\u0301x"), "e\u0301x");
    EXPECT_EQ(found(R"(\s)", "\u180E\u2003"), "\u2003");
    EXPECT_EQ(found(R"(\b.+\b)", "-e\u0301-"), "e\u0301");
}

TEST(Regex, AnchorsAreThoseOfLines) {
    EXPECT_EQ(found("^b$", "a\nb\nc"), "b");
    EXPECT_EQ(found(R"(\Ab)", "a\nb"), "(none)");
    EXPECT_EQ(found("a.b", "a\nb"), "(none)");
    EXPECT_EQ(found("(?m:a.b)", "a\nb"), "a\nb");
}

TEST(Regex, LooksBehindTheStart) {
    EXPECT_EQ(found("(?<=a)b", "ab", 1), "b");
    EXPECT_EQ(found("b", "ab", 2), "(none)");
}

TEST(Regex, SaysWhyAPatternDoesNotCompile) {
    EXPECT_EQ(found("(a", ""), "is not a regular expression we can compile: missing closing parenthesis");
    EXPECT_EQ(found(R"(\K)", ""), R"(uses \K, which is not supported)");
    EXPECT_EQ(found(std::string(70'000, 'a').c_str(), ""), "is longer than 64 KiB");
}

TEST(Regex, GivesUpOnAPatternThatExplodes) {
    EXPECT_EQ(found("(a+)+$", std::string(64, 'a') + "b"), "(none)");
}

TEST(Regex, LongMatches) {
    const std::string text(1U << 18, 'a');
    EXPECT_EQ(found("(?:a|b)+", text).size(), text.size());
    EXPECT_EQ(found("a+", text).size(), text.size());
}

}  // namespace
}  // namespace chaos::text
