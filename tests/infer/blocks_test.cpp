#include "infer/blocks.h"

#include "base/half.h"
#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace chaos::infer {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
    std::vector<std::byte> out;
    for (const int value : values) out.push_back(static_cast<std::byte>(value));
    return out;
}

std::vector<float> decoded(StoredType type, const std::vector<std::byte>& row, std::size_t columns) {
    std::vector<float> values(columns);
    decode_row(type, row, values);
    return values;
}

constexpr int one_low = 0x00;  // 1.0 as F16
constexpr int one_high = 0x3c;

TEST(Blocks, PlainTypesAreReadAsTheyLie) {
    EXPECT_EQ(decoded(StoredType::f16, bytes({one_low, one_high, 0x00, 0xc0}), 2), (std::vector<float>{1.0F, -2.0F}));
    EXPECT_EQ(decoded(StoredType::bf16, bytes({0x80, 0x3f, 0x00, 0xc0}), 2), (std::vector<float>{1.0F, -2.0F}));
    EXPECT_EQ(decoded(StoredType::f32, bytes({0, 0, 0x80, 0x3f}), 1), (std::vector<float>{1.0F}));
}

TEST(Blocks, FourBitsOfColumnsSixteenApartShareAByte) {
    std::vector<std::byte> block = bytes({one_low, one_high});
    for (int i = 0; i < 16; ++i) block.push_back(static_cast<std::byte>(i | (15 - i) << 4));
    const auto values = decoded(StoredType::q4_0, block, 32);
    for (std::size_t i = 0; i < 16; ++i) {
        EXPECT_EQ(values[i], static_cast<float>(i) - 8.0F);
        EXPECT_EQ(values[i + 16], 7.0F - static_cast<float>(i));
    }
    block.insert(block.begin() + 2, {std::byte{one_low}, std::byte{one_high}});
    EXPECT_EQ(decoded(StoredType::q4_1, block, 32)[3], 4.0F);
    EXPECT_EQ(decoded(StoredType::q4_1, block, 32)[19], 13.0F);
    block.insert(block.begin() + 4, {std::byte{8}, std::byte{0}, std::byte{8}, std::byte{0}});
    EXPECT_EQ(decoded(StoredType::q5_1, block, 32)[3], 20.0F);
    EXPECT_EQ(decoded(StoredType::q5_1, block, 32)[19], 29.0F);
    block.erase(block.begin() + 2, block.begin() + 4);
    EXPECT_EQ(decoded(StoredType::q5_0, block, 32)[3], 3.0F);
    EXPECT_EQ(decoded(StoredType::q5_0, block, 32)[4], -12.0F);
}

TEST(Blocks, GroupsOfKBlocksHaveScalesOfSixBits) {
    std::vector<std::byte> block(144);
    const auto ones = bytes({one_low, one_high, one_low, one_high});
    std::copy(ones.begin(), ones.end(), block.begin());
    block[4] = std::byte{5 | 1 << 6};   // group 0: scale 5; upper bits of group 4's scale
    block[8] = std::byte{3 | 2 << 6};   // group 0: minimum 3; upper bits of group 4's minimum
    block[12] = std::byte{7 | 9 << 4};  // group 4: lower bits of scale and minimum
    block[16] = std::byte{2 | 4 << 4};  // column 0 of groups 0 and 1
    block[16 + 64] = std::byte{6};      // column 0 of group 4
    EXPECT_EQ(decoded(StoredType::q4_k, block, 256)[0], 5.0F * 2.0F - 3.0F);
    EXPECT_EQ(decoded(StoredType::q4_k, block, 256)[32], 0.0F);
    EXPECT_EQ(decoded(StoredType::q4_k, block, 256)[128], 23.0F * 6.0F - 41.0F);
    block.insert(block.begin() + 16, 32, std::byte{0});
    block[16] = std::byte{1 | 1 << 4};
    EXPECT_EQ(decoded(StoredType::q5_k, block, 256)[0], 5.0F * 18.0F - 3.0F);
    EXPECT_EQ(decoded(StoredType::q5_k, block, 256)[128], 23.0F * 22.0F - 41.0F);
}

TEST(Blocks, SixBitsAreFourAndTwo) {
    std::vector<std::byte> block(210);
    block[0] = std::byte{1 | 2 << 4};    // column 0, and column 64
    block[128] = std::byte{3 | 2 << 4};  // upper bits of columns 0, 32, 64 and 96
    for (int i = 0; i < 16; ++i) block[192 + static_cast<std::size_t>(i)] = static_cast<std::byte>(i - 8);
    block[208] = std::byte{one_low};
    block[209] = std::byte{one_high};
    const auto values = decoded(StoredType::q6_k, block, 256);
    EXPECT_EQ(values[0], -8.0F * (49 - 32));
    EXPECT_EQ(values[64], -4.0F * (34 - 32));
    EXPECT_EQ(values[16], -7.0F * -32.0F);
    EXPECT_EQ(values[255], 7.0F * -32.0F);
}

TEST(Blocks, WhatIsWrittenIsReadBackAsCloseAsTheTypeAllows) {
    constexpr std::size_t columns = 256;
    std::vector<float> values(columns);
    for (std::size_t i = 0; i < columns; ++i) values[i] = random_normal(1, 2, i);
    for (const auto& [type, share] : {std::pair{StoredType::f32, 0.0F},
                                      {StoredType::f16, 0.0006F},
                                      {StoredType::q8_0, 1.0F / 200},
                                      {StoredType::q4_0, 1.0F / 7}}) {
        std::vector<std::byte> row(row_bytes(type, columns));
        encode_row(type, values, row);
        const auto back = decoded(type, row, columns);
        for (std::size_t i = 0; i < columns; ++i) {
            const auto block = values.begin() + static_cast<std::ptrdiff_t>(i / 32 * 32);
            const float largest = std::fabs(
                *std::max_element(block, block + 32, [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
            EXPECT_LE(std::fabs(back[i] - values[i]), share * largest) << blocks_of(type).name << " column " << i;
        }
        std::vector<std::byte> again(row.size());
        encode_row(type, back, again);
        if (type != StoredType::q8_0) {
            EXPECT_EQ(row, again) << blocks_of(type).name;
        }
    }
}

TEST(Blocks, TinyValuesBecomeZero) {
    const std::vector<float> values(32, 1e-40F);
    for (const StoredType type : {StoredType::q8_0, StoredType::q4_0}) {
        std::vector<std::byte> row(row_bytes(type, 32));
        encode_row(type, values, row);
        EXPECT_EQ(decoded(type, row, 32), std::vector<float>(32, 0.0F));
    }
}

}  // namespace
}  // namespace chaos::infer
