#include "run/entries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> names(const std::string& text) {
    const auto entries = parse_entries(text, "run.toml");
    EXPECT_TRUE(entries.ok());
    std::vector<std::string> result;
    for (const Entry& entry : *entries) result.push_back(std::to_string(entry.line) + " " + entry.key);
    return result;
}

std::string type_of(const std::string& literal) {
    const auto entries = parse_entries("key = " + literal, "run.toml");
    EXPECT_TRUE(entries.ok());
    return std::string(type_name(entries->front().value));
}

std::string error_of(const std::string& text) {
    const auto entries = parse_entries(text, "run.toml");
    return entries.ok() ? "" : entries.error().message;
}

TEST(Entries, AreInTheOrderOfTheText) {
    EXPECT_THAT(names("[z]\nb = 1\na = 2\n[m.n]\nc = 3\n"),
                ElementsAre("1 z", "2 z.b", "3 z.a", "4 m", "4 m.n", "5 m.n.c"));
}

TEST(Entries, AreTheSameHoweverATableIsSpelt) {
    EXPECT_THAT(names("z = {a = 1}"), ElementsAre("1 z", "1 z.a"));
    EXPECT_THAT(names("z.a = 1"), ElementsAre("1 z", "1 z.a"));
}

TEST(Entries, AQuotedKeyWithADotIsNotAKeyOfATable) {
    EXPECT_THAT(names("\"z.a\" = 1\n"), ElementsAre("1 \"z.a\""));
    EXPECT_THAT(names("\"\" = 1\n\"a\\nb\" = 2\n"), ElementsAre("1 \"\"", "2 \"a?b\""));
}

TEST(Entries, NameTheirTypes) {
    EXPECT_EQ(type_of("{}"), "a table");
    EXPECT_EQ(type_of("1979-05-27"), "a date or time");
    EXPECT_EQ(type_of("07:32:00"), "a date or time");
    EXPECT_EQ(type_of("true"), "a boolean");
    EXPECT_EQ(type_of("-3"), "a whole number");
    EXPECT_EQ(type_of("nan"), "a decimal number");
    EXPECT_EQ(type_of("'x'"), "a string");
    EXPECT_EQ(type_of("[1, [2]]"), "an array");
}

TEST(Entries, SyntaxErrorsNameTheLine) {
    EXPECT_THAT(error_of("[train]\nsteps = \n"), StartsWith("run.toml:2: not valid TOML: "));
    EXPECT_THAT(error_of("[train]\nsteps = 1\nsteps = 2\n"), StartsWith("run.toml:3: not valid TOML: "));
    EXPECT_THAT(error_of("[train\n"), StartsWith("run.toml:1: not valid TOML: "));
    EXPECT_THAT(error_of("a = 99999999999999999999\n"), StartsWith("run.toml:1: not valid TOML: "));
    EXPECT_THAT(error_of("a = \"\xff\"\n"), StartsWith("run.toml:1: not valid TOML: "));
}

TEST(Entries, SyntaxErrorsAreOneLine) {
    for (const char* text : {"[train]\nsteps = \n", "a = 1\na = 2", "\xff", "a = \"x\ny\"", "a = '''x", "= 1", "a"}) {
        EXPECT_NE(error_of(text), "") << text;
        EXPECT_EQ(error_of(text).find('\n'), std::string::npos) << error_of(text);
    }
}

TEST(Entries, DeepNestingIsRefused) {
    EXPECT_THAT(error_of("a = " + std::string(100'000, '[')), HasSubstr("not valid TOML"));
}

TEST(Entries, AnOversizedFileIsRefused) {
    EXPECT_EQ(error_of(std::string(max_run_file_bytes + 1, '\n')),
              "run.toml: a run file has at most 1048576 bytes, not 1048577");
}

}  // namespace
}  // namespace chaos::run
