#include "cli/quantities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::cli {
namespace {

using ::testing::HasSubstr;

TEST(Quantities, HaveUnits) {
    const auto bytes = [](std::string_view text) { return parse_quantity(text, Quantity::bytes); };
    EXPECT_EQ(bytes("2GB"), 2'000'000'000U);
    EXPECT_EQ(bytes("1.5 GiB"), 1'610'612'736U);
    EXPECT_EQ(bytes("1TiB"), std::uint64_t{1} << 40);
    EXPECT_EQ(bytes("7B"), 7U);
    EXPECT_EQ(bytes("0 kB"), 0U);
    EXPECT_EQ(parse_quantity("1Gb/s", Quantity::bytes_per_second), 125'000'000U);
    EXPECT_EQ(parse_quantity("10 MB/s", Quantity::bytes_per_second), 10'000'000U);
    EXPECT_EQ(parse_quantity("0.2ms", Quantity::nanoseconds), 200'000U);
    for (const char* text : {"", "GB", "2", "2 ", "2gb", "2GBs", "-1GB", "1e30GB", "nanGB", "infGB", "2GB/s", "x2GB"})
        EXPECT_EQ(bytes(text), std::nullopt) << text;
    EXPECT_EQ(parse_quantity("2GB", Quantity::nanoseconds), std::nullopt);
}

TEST(Quantities, SizesOfOptionsAreNotNothing) {
    EXPECT_EQ(parse_bytes("500MB", "--memory").value(), 500'000'000U);
    for (const char* text : {"0GB", "0.1B", "much", "1e10GB"}) {
        const auto refused = parse_bytes(text, "--memory");
        ASSERT_FALSE(refused) << text;
        EXPECT_THAT(refused.error().message, HasSubstr("--memory takes a size like 2GB")) << text;
    }
}

TEST(Quantities, IdsAndTypesAreReadWhole) {
    EXPECT_EQ(parse_ids("1,20,-3").value(), (std::vector<text::TokenId>{1, 20, -3}));
    for (const char* text : {"", ",", "1,", "1,,2", "1 2", "99999999999"}) EXPECT_FALSE(parse_ids(text)) << text;
    EXPECT_EQ(parse_kv_type("f32").value(), infer::KvType::f32);
    EXPECT_FALSE(parse_kv_type("F32"));
}

}  // namespace
}  // namespace chaos::cli
