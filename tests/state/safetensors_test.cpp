#include "state/safetensors.h"

#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <bit>

namespace chaos::state {
namespace {

using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string file_with(const std::string& header, const std::string& data) {
    std::string text;
    for (std::size_t i = 0; i < 8; ++i) text += static_cast<char>((header.size() >> (8 * i)) & 255);
    return text + header + data;
}

std::string refusal(const std::string& header, const std::string& data) {
    const TemporaryFolder folder;
    const auto opened = Safetensors::open(folder.write("file", file_with(header, data)));
    return opened ? "accepted" : opened.error().message;
}

TEST(Safetensors, ComeBackAsWritten) {
    const TemporaryFolder folder;
    const std::vector<float> a = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
    const std::vector<float> b = {7.0F};
    const std::vector<FloatTensor> tensors = {{"z.first", {2, 3}, a}, {"a.second", {1}, b}};
    ASSERT_TRUE(write_safetensors(folder / "f", tensors, {{"key", "value \"quoted\""}}));
    const auto file = Safetensors::open(folder / "f");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->metadata().at("key"), "value \"quoted\"");
    const auto& entry = file->tensors().at("z.first");
    EXPECT_THAT(entry.shape, ElementsAre(2, 3));
    std::vector<float> values(6);
    to_floats(entry, values);
    EXPECT_EQ(values, a);
    EXPECT_EQ(file->data().size(), 28U);
}

TEST(Safetensors, HalfPrecisionBecomesTheSameNumbers) {
    const TemporaryFolder folder;
    const std::string halves("\x00\x3c\x00\xc0\x01\x00\xff\x7b\x00\x7c\x00\x00", 12);
    const std::string bfloats("\x80\x3f\x00\xc0", 4);
    const auto file =
        Safetensors::open(folder.write("f", file_with(R"({"h":{"dtype":"F16","shape":[6],"data_offsets":[0,12]},
                                        "b":{"dtype":"BF16","shape":[2],"data_offsets":[12,16]}})",
                                                      halves + bfloats)));
    ASSERT_TRUE(file) << file.error().message;
    std::vector<float> h(6);
    to_floats(file->tensors().at("h"), h);
    EXPECT_THAT(h, ElementsAre(1.0F, -2.0F, 0x1p-24F, 65504.0F, std::numeric_limits<float>::infinity(), 0.0F));
    std::vector<float> b(2);
    to_floats(file->tensors().at("b"), b);
    EXPECT_THAT(b, ElementsAre(1.0F, -2.0F));
}

TEST(Safetensors, DamagedHeadersAreRefused) {
    EXPECT_THAT(refusal("not json", ""), HasSubstr("damaged header"));
    EXPECT_THAT(refusal("[]", ""), HasSubstr("damaged header"));
    EXPECT_THAT(refusal(R"({"t":{"dtype":"F32"}})", ""), HasSubstr("lacks dtype, shape or data_offsets"));
    EXPECT_THAT(refusal(R"({"t":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})", "x"),
                HasSubstr("tensor t has type I8"));
    EXPECT_THAT(refusal(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "1234"),
                HasSubstr("outside the file"));
    EXPECT_THAT(refusal(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"),
                HasSubstr("does not fit its shape"));
    EXPECT_THAT(refusal(R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234"), HasSubstr("bad shape"));
    EXPECT_THAT(refusal(R"({"t":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,4]}})", "1234"),
                HasSubstr("bad shape"));
    EXPECT_THAT(refusal(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[8,4]}})", "12345678"),
                HasSubstr("outside the file"));
    EXPECT_THAT(refusal(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                        R"("u":{"dtype":"F16","shape":[2],"data_offsets":[2,6]}})",
                        "12345678"),
                HasSubstr("two of its tensors lie in the same place"));
    EXPECT_THAT(refusal("{\"\\u001b[31m\":{}}", ""), HasSubstr("tensor ?[31m lacks"));
    EXPECT_THAT(refusal(R"({"__metadata__":{"a":1}})", ""), HasSubstr("damaged metadata"));
}

TEST(Safetensors, ShortFilesAreRefused) {
    const TemporaryFolder folder;
    EXPECT_THAT(Safetensors::open(folder.write("f", "1234")).error().message, HasSubstr("only 4 bytes"));
    EXPECT_THAT(Safetensors::open(folder.write("g", std::string(8, '\x7f'))).error().message, HasSubstr("truncated"));
}

}  // namespace
}  // namespace chaos::state
