#include "net/admission.h"

#include <gtest/gtest.h>

namespace chaos::net {
namespace {

constexpr UnixSeconds now = 1'800'000'000;
constexpr UnixSeconds later = now + 86'400;

class Admission : public testing::Test {
protected:
    Admission() { view.institutions = {{.root = institution.public_key()}}; }

    Proven shows(const Credential& credential) const {
        return {.key = node, .node = node_id(node), .credential = credential};
    }
    std::string why_not(const Credential& credential) const {
        const Result<void> admitted = admit(&view, shows(credential), now);
        return admitted ? "" : admitted.error().message;
    }

    SecretKey institution = SecretKey::generate();
    PublicKey node = SecretKey::generate().public_key();
    Credential certificate = vouch_for(institution, node, later);
    Token token = issue_token(institution, later);
    cluster::View view;
};

TEST_F(Admission, LetsInWhomAnInstitutionOfTheViewVouchesFor) {
    EXPECT_EQ(why_not(certificate), "");
    EXPECT_EQ(why_not(redeem(token, node)), "");
    view.tokens = {{.token = *vouched_by(redeem(token, node)).token, .node = node_id(node)}};
    EXPECT_EQ(why_not(redeem(token, node)), "") << "the same node may come back";
}

TEST_F(Admission, RefusesInWords) {
    EXPECT_EQ(why_not(vouch_for(SecretKey::generate(), node, later)), "its institution is not in the cluster");
    EXPECT_EQ(why_not(vouch_for(institution, SecretKey::generate().public_key(), later)),
              "its credential is for another node");
    Credential forged = certificate;
    forged.vouched[3] ^= 1;
    EXPECT_EQ(why_not(forged), "its credential is not signed by the institution that it names");
    EXPECT_EQ(why_not(vouch_for(institution, node, now - 1)), "its credential expired on 2027-01-15 07:59 UTC");
    EXPECT_EQ(why_not(redeem(issue_token(institution, now - 1), node)),
              "its credential expired on 2027-01-15 07:59 UTC");

    const cluster::Vouched by_token = vouched_by(redeem(token, node));
    view.tokens = {{.token = *by_token.token, .node = {.high = 1, .low = 1}}};
    EXPECT_EQ(why_not(redeem(token, node)), "its join token was used by another node");
    view.revoked = {{.subject = by_token.token->id, .by = by_token.institution}};
    EXPECT_EQ(why_not(redeem(token, node)), "its join token was revoked");
    view.revoked = {{.subject = node_id(node), .by = by_token.institution}};
    EXPECT_EQ(why_not(certificate), "this node was revoked");
    view.revoked = {{.subject = node_id(node), .by = {}}};
    EXPECT_EQ(why_not(certificate), "this node was expelled");
    view.institutions[0].standing = cluster::InstitutionStanding::removed;
    EXPECT_EQ(why_not(certificate), "its institution was removed from the cluster");
}

TEST_F(Admission, WithoutAViewTheCredentialAloneCounts) {
    EXPECT_TRUE(admit(nullptr, shows(vouch_for(SecretKey::generate(), node, later)), now));
    EXPECT_FALSE(admit(nullptr, shows(certificate), later + 1));
    EXPECT_FALSE(admit(nullptr, shows(vouch_for(institution, SecretKey::generate().public_key(), later)), now));
}

}  // namespace
}  // namespace chaos::net
