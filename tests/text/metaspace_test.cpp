#include "text/metaspace.h"

#include "text/document.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

using test::Document;
using test::error_of;

TEST(Metaspace, NewAndOldForms) {
    const auto parsed = [](const char* json) { return *Metaspace::parse(Document(json).field()); };
    EXPECT_EQ(parsed(R"({"replacement": "▁", "prepend_scheme": "first"})").prepend, Metaspace::Prepend::first);
    EXPECT_EQ(parsed(R"({"replacement": "▁", "prepend_scheme": "never"})").prepend, Metaspace::Prepend::never);
    EXPECT_EQ(parsed(R"({"replacement": "▁", "prepend_scheme": "always"})").prepend, Metaspace::Prepend::always);
    EXPECT_EQ(parsed(R"({"replacement": "▁"})").prepend, Metaspace::Prepend::always);
    EXPECT_EQ(parsed(R"({"replacement": "▁", "add_prefix_space": true})").prepend, Metaspace::Prepend::always);
    EXPECT_EQ(parsed(R"({"replacement": "▁", "add_prefix_space": false})").prepend, Metaspace::Prepend::never);
    EXPECT_TRUE(parsed(R"({"replacement": "_"})").split);
    EXPECT_FALSE(parsed(R"({"replacement": "_", "split": false})").split);
    EXPECT_EQ(parsed(R"({"replacement": "_"})").replacement, "_");
}

TEST(Metaspace, Refusals) {
    const auto refusal = [](const char* json) { return error_of(Metaspace::parse(Document(json).field())); };
    EXPECT_EQ(refusal(R"({"replacement": "ab"})"), "t.json: replacement must be a string of one character");
    EXPECT_EQ(refusal(R"({"replacement": ""})"), "t.json: replacement must be a string of one character");
    EXPECT_EQ(refusal("{}"), "t.json has no 'replacement'");
    EXPECT_EQ(refusal(R"({"replacement": "_", "prepend_scheme": "last"})"),
              "t.json: prepend_scheme is 'last', which is not supported (only first, always or never)");
    EXPECT_EQ(refusal(R"({"replacement": "_", "prepend_scheme": "first", "add_prefix_space": false})"),
              "t.json: prepend_scheme contradicts 'add_prefix_space', which is false");
}

}  // namespace
}  // namespace chaos::text
