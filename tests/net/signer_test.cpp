#include "net/signer.h"

#include <gtest/gtest.h>

namespace chaos::net {
namespace {

TEST(KeySigner, AnybodyCanCheckWhoSignedWhat) {
    const SecretKey key = SecretKey::generate();
    const KeySigner author(key);
    const KeySigner other(SecretKey::generate());
    const std::vector<std::uint8_t> text{1, 2, 3};
    cluster::Signature signature = author.sign(text);
    EXPECT_TRUE(other.verify(node_id(key.public_key()), text, signature));
    EXPECT_FALSE(other.verify({.high = 1, .low = 2}, text, signature)) << "nobody signs in another's name";
    EXPECT_FALSE(other.verify(node_id(key.public_key()), std::vector<std::uint8_t>{1, 2}, signature));
    signature = other.sign(text);
    EXPECT_FALSE(author.verify(node_id(key.public_key()), text, signature));
}

}  // namespace
}  // namespace chaos::net
