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

TEST(KeySigner, ReadsWhatInstitutionsSign) {
    const SecretKey institution = SecretKey::generate();
    const PublicKey node = SecretKey::generate().public_key();
    const KeySigner signer(SecretKey::generate());
    constexpr UnixSeconds long_ago = 1'000'000;  // dates are not its business

    const auto certified = signer.vouched(node_id(node), encode(vouch_for(institution, node, long_ago)));
    ASSERT_TRUE(certified) << certified.error().message;
    EXPECT_EQ(certified->institution, institution.public_key());
    EXPECT_FALSE(certified->token);
    const Token token = issue_token(institution, long_ago);
    const auto redeemed = signer.vouched(node_id(node), encode(redeem(token, node)));
    ASSERT_TRUE(redeemed) << redeemed.error().message;
    ASSERT_TRUE(redeemed->token);
    EXPECT_EQ(redeemed->token->id, node_id(key_of(token)));
    EXPECT_EQ(redeemed->token->not_after, long_ago);

    const cluster::NodeId another = node_id(SecretKey::generate().public_key());
    EXPECT_FALSE(signer.vouched(another, encode(vouch_for(institution, node, long_ago))));
    EXPECT_FALSE(signer.vouched(another, encode(redeem(token, node))));
    EXPECT_FALSE(signer.vouched(node_id(node), {}));

    const auto revoked = signer.revocation(encode(revoke(institution, node)));
    ASSERT_TRUE(revoked) << revoked.error().message;
    EXPECT_EQ(*revoked, (cluster::Revocation{.subject = node_id(node), .by = institution.public_key()}));
    Revocation forged = revoke(institution, node);
    forged.subject = SecretKey::generate().public_key();
    EXPECT_FALSE(signer.revocation(encode(forged)));
    EXPECT_FALSE(signer.revocation({}));
}

TEST(KeySigner, WhatItReadsFitsIntoTheClustersMessages) {
    EXPECT_LE(credential_bytes, cluster::max_credential_bytes);
    EXPECT_LE(revocation_bytes, cluster::max_credential_bytes);
}

}  // namespace
}  // namespace chaos::net
