#include "text/fields.h"

#include "text/document.h"

#include <gtest/gtest.h>
#include <array>

namespace chaos::text {
namespace {

using test::Document;
using test::error_of;

TEST(Fields, ReadsValues) {
    const Document document(R"({"a": {"b": [1, "x"]}, "yes": true, "none": null, "one": "é"})");
    const Field file = document.field();
    const auto items = file.at("a")->at("b")->items();
    ASSERT_TRUE(items.ok());
    EXPECT_EQ(*(*items)[0].integer(0, 1), 1);
    EXPECT_EQ(*(*items)[1].text(), "x");
    EXPECT_TRUE(*file.flag_at("yes"));
    EXPECT_TRUE(*file.flag_at("absent", true));
    EXPECT_FALSE(file.find("none")->has_value());
    EXPECT_EQ(*file.at("one")->character(), U'é');
}

TEST(Fields, ErrorsNameTheFileAndTheField) {
    const Document document(R"({"a": {"b": [1, "xy"]}, "huge": 18446744073709551615, "half": 0.5})");
    const Field file = document.field();
    const auto items = *file.at("a")->at("b")->items();
    EXPECT_EQ(error_of(file.at("c")), "t.json has no 'c'");
    EXPECT_EQ(error_of(file.at("a")->at("c")), "t.json: a has no 'c'");
    EXPECT_EQ(error_of(items[0].text()), "t.json: a.b[0] must be a string");
    EXPECT_EQ(error_of(items[0].at("x")), "t.json: a.b[0] must be an object");
    EXPECT_EQ(error_of(items[0].items()), "t.json: a.b[0] must be an array");
    EXPECT_EQ(error_of(items[0].flag()), "t.json: a.b[0] must be true or false");
    EXPECT_EQ(error_of(items[0].integer(2, 9)), "t.json: a.b[0] must be a whole number from 2 to 9");
    EXPECT_EQ(error_of(items[1].integer(2, 9)), "t.json: a.b[1] must be a whole number from 2 to 9");
    EXPECT_EQ(error_of(items[1].character()), "t.json: a.b[1] must be a string of one character");
    EXPECT_FALSE(file.at("huge")->integer(-9, 9).ok());
    EXPECT_FALSE(file.at("half")->integer(-9, 9).ok());
    constexpr std::array<std::string_view, 2> supported = {"A", "B"};
    EXPECT_EQ(items[1].unsupported("xy", supported).message,
              "t.json: a.b[1] is 'xy', which is not supported (only A or B)");
}

TEST(Fields, StepsOfNestedSequences) {
    const Document document(R"({"type": "Sequence", "parts": [{"type": "A"},
        {"type": "Sequence", "parts": [{"type": "B"}, {"type": "C"}]}]})");
    const auto steps = steps_of(document.field(), "parts");
    ASSERT_TRUE(steps.ok());
    std::string names;
    for (const Field& step : *steps) names += *step.at("type")->text();
    EXPECT_EQ(names, "ABC");
}

TEST(Fields, SequencesThatCannotBeTakenApart) {
    EXPECT_EQ(error_of(steps_of(Document(R"({"type": "Sequence"})").field(), "parts")), "t.json has no 'parts'");
    EXPECT_EQ(error_of(steps_of(Document(R"({"parts": []})").field(), "parts")), "t.json has no 'type'");
    std::string deep = R"({"type": "A"})";
    for (int level = 0; level < 10; ++level) deep = R"({"type": "Sequence", "parts": [)" + deep + "]}";
    EXPECT_NE(error_of(steps_of(Document(deep).field(), "parts")).find("is nested too deeply"), std::string::npos);
}

}  // namespace
}  // namespace chaos::text
