#include "net/credential.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <filesystem>
#include <fstream>

namespace chaos::net {
namespace {

constexpr UnixSeconds now = 1'800'000'000;
constexpr UnixSeconds later = now + 86'400;

std::string why_not(const Credential& credential, const PublicKey& node, UnixSeconds when = now) {
    const Result<void> checked = check(credential, node_id(node));
    const Result<void> dated = check_date(credential, when);
    return !checked ? checked.error().message : !dated ? dated.error().message : "";
}

TEST(Key, ANodesIdIsTheHashOfItsKey) {
    const SecretKey key = SecretKey::from_seed(Seed{7});
    EXPECT_EQ(node_id(key.public_key()), node_id(SecretKey::from_seed(Seed{7}).public_key()));
    EXPECT_NE(node_id(key.public_key()), node_id(SecretKey::generate().public_key()));
    const auto read = key_from_text(to_text(key.public_key()));
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, key.public_key());
    EXPECT_FALSE(key_from_text("0123"));
    EXPECT_FALSE(key_from_text(std::string(64, 'g')));
}

TEST(Key, SurvivesItsFileAndKeepsItToItsOwner) {
    const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "chaos_key_test.pem";
    std::filesystem::remove(path);
    const SecretKey key = SecretKey::generate();
    ASSERT_TRUE(key.save(path));
    EXPECT_FALSE(key.save(path)) << "a key is never replaced";
    const auto again = SecretKey::load(path);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->public_key(), key.public_key());
    EXPECT_EQ(again->seed(), key.seed());
    ::chmod(path.c_str(), 0644);
    const auto open_to_all = SecretKey::load(path);
    ASSERT_FALSE(open_to_all);
    EXPECT_THAT(open_to_all.error().message, testing::HasSubstr("chmod 600"));
    std::ofstream(path) << "no key";
    ::chmod(path.c_str(), 0600);
    EXPECT_FALSE(SecretKey::load(path));
    std::filesystem::remove(path);
}

TEST(Key, ASignatureFitsOneKeyAndOneText) {
    const SecretKey key = SecretKey::generate();
    const std::vector<std::uint8_t> text{1, 2, 3};
    RawSignature signature = key.sign(text);
    EXPECT_TRUE(verify(key.public_key(), text, signature));
    EXPECT_FALSE(verify(SecretKey::generate().public_key(), text, signature));
    EXPECT_FALSE(verify(key.public_key(), std::vector<std::uint8_t>{1, 2, 4}, signature));
    signature[9] ^= 1;
    EXPECT_FALSE(verify(key.public_key(), text, signature));
}

TEST(Credential, LetsInWhomItNamesUntilItsDate) {
    const SecretKey institution = SecretKey::generate();
    const PublicKey node = SecretKey::generate().public_key();
    const Credential credential = vouch_for(institution, node, later);
    EXPECT_EQ(why_not(credential, node), "");
    EXPECT_THAT(why_not(credential, node, later + 1), testing::HasSubstr("expired"));
    EXPECT_THAT(why_not(credential, SecretKey::generate().public_key()), testing::HasSubstr("another node"));
    Credential other_root = credential;
    other_root.institution = SecretKey::generate().public_key();
    EXPECT_THAT(why_not(other_root, node), testing::HasSubstr("not signed"));
    Credential longer = credential;
    longer.not_after += 1;
    EXPECT_THAT(why_not(longer, node), testing::HasSubstr("not signed"));
    EXPECT_EQ(vouched_by(credential).institution, institution.public_key());
    EXPECT_EQ(vouched_by(credential).token, std::nullopt);
}

TEST(Credential, ATokenLetsInWhoeverRedeemsItAndNobodyWhoSawThat) {
    const SecretKey institution = SecretKey::generate();
    const PublicKey node = SecretKey::generate().public_key();
    const auto token = token_from_text(to_text(issue_token(institution, later)));
    ASSERT_TRUE(token) << token.error().message;
    const Credential credential = redeem(*token, node);
    EXPECT_EQ(why_not(credential, node), "");
    const cluster::JoinToken named{.id = node_id(key_of(*token)), .not_after = later};
    EXPECT_EQ(vouched_by(credential).token, named);
    const SecretKey another = SecretKey::generate();
    EXPECT_EQ(vouched_by(redeem(*token, another.public_key())).token, named) << "whoever redeems it";
    EXPECT_THAT(why_not(credential, SecretKey::generate().public_key()), testing::HasSubstr("another node"));
    Credential posing = credential;  // as a certificate for the token's own key
    posing.token = false;
    EXPECT_NE(why_not(posing, credential.subject), "");
    EXPECT_FALSE(token_from_text("chaos-join-00"));
    EXPECT_FALSE(token_from_text("hello"));
}

TEST(Credential, ItsEncodingReadsBackAndNothingElseDoes) {
    const Credential credential = redeem(issue_token(SecretKey::generate(), later), SecretKey::generate().public_key());
    std::vector<std::uint8_t> bytes = encode(credential);
    ASSERT_EQ(bytes.size(), credential_bytes);
    const auto again = decode_credential(bytes);
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, credential);
    EXPECT_FALSE(decode_credential(std::span(bytes).first(bytes.size() - 1)));
    bytes[32 + 32 + 8] = 2;
    EXPECT_FALSE(decode_credential(bytes));
}

TEST(Revocation, IsSignedByTheInstitutionThatItNames) {
    const SecretKey institution = SecretKey::generate();
    const PublicKey node = SecretKey::generate().public_key();
    const Revocation revocation = revoke(institution, node);
    EXPECT_TRUE(check(revocation));
    const auto read = revocation_from_text(to_text(revocation));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, revocation);
    Revocation by_another = revocation;
    by_another.institution = SecretKey::generate().public_key();
    EXPECT_FALSE(check(by_another));
    Revocation of_another = revocation;
    of_another.subject = SecretKey::generate().public_key();
    EXPECT_FALSE(check(of_another));
    // What vouches for a node revokes nothing, and the other way round.
    Revocation posing = revocation;
    posing.signature = vouch_for(institution, node, later).vouched;
    EXPECT_FALSE(check(posing));
    EXPECT_THAT(revocation_from_text("chaos-revoke-00").error().message, testing::HasSubstr("not whole"));
    EXPECT_FALSE(revocation_from_text(to_text(vouch_for(institution, node, later))));
    const std::vector<std::uint8_t> bytes = encode(revocation);
    EXPECT_TRUE(decode_revocation(bytes));
    EXPECT_FALSE(decode_revocation(std::span(bytes).first(revocation_bytes - 1)));
}

}  // namespace
}  // namespace chaos::net
