#include "base/hash.h"

#include <gtest/gtest.h>

namespace chaos {
namespace {

TEST(Hash, Sha256OfKnownTexts) {
    EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hash, Sha256InPiecesEqualsSha256AtOnce) {
    EXPECT_EQ(Sha256().add("ab").add("").add("c").finish(), sha256("abc"));
}

TEST(Hash, XxhNoticesOneFlippedBit) {
    std::array<std::byte, 100> bytes{};
    const std::uint64_t before = xxh3(bytes);
    bytes[57] = std::byte{4};
    EXPECT_NE(xxh3(bytes), before);
}

}  // namespace
}  // namespace chaos
