#include "text/pattern.h"

#include "text/document.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

using test::Document;
using test::error_of;

// The stretches of `text`, matches in brackets.
std::string stretches(const char* pattern, std::string_view text) {
    const auto parsed = Pattern::parse(Document(pattern).field());
    if (!parsed) return parsed.error().message;
    std::string result;
    parsed->for_each(text, [&](Range range, bool is_match) {
        const std::string part(text.substr(range.begin, range.end - range.begin));
        result += is_match ? "[" + part + "]" : part + ".";
    });
    return result;
}

TEST(Pattern, CoversTheText) {
    EXPECT_EQ(stretches(R"({"String": " "})", "a b  c"), "a.[ ]b.[ ][ ]c.");
    EXPECT_EQ(stretches(R"({"String": "."})", "a.b"), "a.[.]b.");
    EXPECT_EQ(stretches(R"({"String": "aa"})", "aaa"), "[aa]a.");
    EXPECT_EQ(stretches(R"({"Regex": "[0-9]+"})", "12ab3"), "[12]ab.[3]");
    EXPECT_EQ(stretches(R"({"Regex": "x"})", "none"), "none.");
    EXPECT_EQ(stretches(R"({"Regex": "x*"})", ""), "");
}

TEST(Pattern, EmptyMatchesNeverTouchAMatch) {
    EXPECT_EQ(stretches(R"({"String": ""})", "aé"), "[]a.[]é.[]");
    EXPECT_EQ(stretches(R"({"Regex": "x*"})", "axb"), "[]a.[x]b.[]");
    EXPECT_EQ(stretches(R"j({"Regex": "(?=b)"})j", "abb"), "a.[]b.[]b.");
}

TEST(Pattern, Refusals) {
    EXPECT_EQ(stretches("{}", ""), "t.json has neither 'String' nor 'Regex'");
    EXPECT_EQ(stretches(R"({"String": 1})", ""), "t.json: String must be a string");
    EXPECT_EQ(stretches(R"({"Regex": "a&&b[c&&d]"})", ""),
              "t.json: Regex uses an intersection of classes (&&), which is not supported");
    EXPECT_EQ(stretches(R"({"Regex": "("})", ""),
              "t.json: Regex is not a regular expression we can compile: missing closing parenthesis");
}

}  // namespace
}  // namespace chaos::text
