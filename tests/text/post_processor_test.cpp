#include "text/post_processor.h"

#include "text/document.h"

#include <gtest/gtest.h>

namespace chaos::text {
namespace {

using test::Document;
using test::error_of;
using Ids = std::vector<TokenId>;

Result<PostProcessor> parse(const std::string& json) {
    return PostProcessor::parse(Document(json).field(), [](TokenId id) { return id < 10; });
}

const std::string with_both_ends = R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {
        "<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [2, 3], "tokens": ["a", "b"]}},
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "</s>", "type_id": 0}}]})";

TEST(PostProcessor, AddsWhatTheTemplateSays) {
    EXPECT_EQ(parse(with_both_ends)->process({7, 8}, true), (Ids{1, 7, 8, 2, 3}));
    EXPECT_EQ(parse(with_both_ends)->process({7, 8}, false), (Ids{7, 8}));
    EXPECT_EQ(parse(with_both_ends)->process({}, true), (Ids{1, 2, 3}));
    EXPECT_EQ(parse(R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, )" + with_both_ends + "]}")
                  ->process({7}, true),
              (Ids{1, 7, 2, 3}));
    const std::string twice = R"({"type": "TemplateProcessing", "special_tokens": {},
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]})";
    EXPECT_EQ(parse(twice)->process({7, 8}, true), (Ids{7, 8, 7, 8}));
}

TEST(PostProcessor, AddsNothing) {
    EXPECT_EQ(PostProcessor::parse(std::nullopt, [](TokenId) { return true; })->process({7}, true), (Ids{7}));
    EXPECT_EQ(parse(R"({"type": "ByteLevel", "trim_offsets": true})")->process({7}, true), (Ids{7}));
    EXPECT_EQ(parse(R"({"type": "Sequence", "processors": []})")->process({7}, true), (Ids{7}));
}

TEST(PostProcessor, Refusals) {
    const auto refusal = [](const std::string& json) { return error_of(parse(json)); };
    EXPECT_EQ(
        refusal(R"({"type": "BertProcessing"})"),
        "t.json: type is 'BertProcessing', which is not supported (only TemplateProcessing, ByteLevel or Sequence)");
    EXPECT_EQ(refusal(R"({"type": "Sequence", "processors": [)" + with_both_ends + ", " + with_both_ends + "]}"),
              "t.json: processors[1].type is a second TemplateProcessing, which is not supported");
    const auto single = [&](const std::string& part, const std::string& tokens) {
        return refusal(R"({"type": "TemplateProcessing", "single": [)" + part + R"(], "special_tokens": )" + tokens +
                       "}");
    };
    EXPECT_EQ(single(R"({"Sequence": {"id": "B"}})", "{}"),
              "t.json: single[0].Sequence.id must be 'A': a single text has no other sequence");
    EXPECT_EQ(single(R"({"Other": {}})", "{}"), "t.json: single[0] has no 'Sequence'");
    const std::string special = R"({"SpecialToken": {"id": "<s>"}})";
    EXPECT_EQ(single(special, "{}"),
              "t.json: single[0].SpecialToken.id is '<s>', which 'special_tokens' does not list");
    EXPECT_EQ(single(special, R"({"<s>": {"ids": [12]}})"),
              "t.json: special_tokens.<s>.ids[0] is 12, the id of no token");
    EXPECT_EQ(single(special, R"({"<s>": {"ids": [-1]}})"),
              "t.json: special_tokens.<s>.ids[0] must be a whole number from 0 to 4194303");
    EXPECT_EQ(single(special, R"({"<s>": {}})"), "t.json: special_tokens.<s> has no 'ids'");
}

}  // namespace
}  // namespace chaos::text
