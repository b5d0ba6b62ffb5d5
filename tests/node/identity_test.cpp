#include "node/identity.h"

#include "node/institutions.h"
#include "node/issued.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace chaos::node {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr net::UnixSeconds long_ago = 1'000'000'000;

class NodeIdentity : public ::testing::Test {
protected:
    IdentityOptions options(const std::string& node = "a") const {
        IdentityOptions chosen;
        chosen.dir = folder / node;
        chosen.home = folder / "home";
        return chosen;
    }
    Institution institution(const std::string& name) const {
        auto made = make_institution(folder / "home", name);
        EXPECT_TRUE(made) << made.error().message;
        return *made;
    }
    static Identity identity(const IdentityOptions& chosen) {
        auto made = identity_of(chosen);
        EXPECT_TRUE(made) << made.error().message;
        EXPECT_TRUE(net::check(made->credential, net::node_id(made->key.public_key())));
        EXPECT_TRUE(net::check_date(made->credential, std::time(nullptr)));
        return *made;
    }
    static std::string error(const IdentityOptions& chosen) {
        const auto made = identity_of(chosen);
        EXPECT_FALSE(made);
        return made ? "" : made.error().message;
    }
    void keep(const std::string& node, const net::Credential& credential) const {
        std::ofstream(folder / node / "credential") << net::to_text(credential) << "\n";
    }
    std::string kept(const std::string& node) const {
        std::stringstream content;
        content << std::ifstream(folder / node / "credential").rdbuf();
        return content.str();
    }

    const TemporaryFolder folder;
};

TEST_F(NodeIdentity, AFounderMakesAnInstitutionOnceAndKeepsWhoItIs) {
    IdentityOptions founding = options();
    founding.may_make_institution = true;
    const Identity first = identity(founding);
    EXPECT_TRUE(first.made_key);
    EXPECT_TRUE(first.made_institution);
    EXPECT_EQ(first.institution_name, "local");
    EXPECT_EQ(fs::status(folder / "a").permissions(), fs::perms::owner_all);
    EXPECT_EQ(fs::status(folder / "a/node.key").permissions(), fs::perms::owner_read | fs::perms::owner_write);

    const Identity again = identity(founding);
    EXPECT_FALSE(again.made_key);
    EXPECT_FALSE(again.made_institution);
    EXPECT_EQ(again.institution_name, "local");
    EXPECT_EQ(again.key.public_key(), first.key.public_key());
    EXPECT_EQ(again.credential, first.credential);

    // Another node of this machine is another node, of the same institution.
    const Identity other = identity(options("b"));
    EXPECT_NE(other.key.public_key(), first.key.public_key());
    EXPECT_EQ(other.credential.institution, first.credential.institution);

    const auto lines = issued(folder / "home/institutions/local.key");
    ASSERT_TRUE(lines);
    EXPECT_THAT(*lines, ElementsAre(HasSubstr(net::to_text(first.key.public_key())),
                                    HasSubstr(net::to_text(other.key.public_key()))));
}

TEST_F(NodeIdentity, WhoHasNoInstitutionIsToldHowToGetIn) {
    EXPECT_THAT(error(options()), HasSubstr("chaos institution invite NAME"));
    EXPECT_THAT(error(options()), HasSubstr("--token WORD"));
}

TEST_F(NodeIdentity, ATokenOfAnotherMachineIsRedeemedAndKept) {
    const net::SecretKey elsewhere = net::SecretKey::generate();
    IdentityOptions joining = options();
    joining.token = net::to_text(net::issue_token(elsewhere, std::time(nullptr) + 1000)) + "\n";
    const Identity first = identity(joining);
    EXPECT_EQ(first.credential.institution, elsewhere.public_key());
    EXPECT_EQ(first.institution_name, "");
    EXPECT_EQ(identity(options()).credential, first.credential);
    EXPECT_EQ(identity(joining).credential, first.credential);

    joining.token = net::to_text(net::issue_token(elsewhere, long_ago));
    EXPECT_THAT(error(joining), HasSubstr("the token of --token has expired; "));
    joining.token = "nonsense";
    EXPECT_THAT(error(joining), HasSubstr("--token: "));
    EXPECT_EQ(identity(options()).credential, first.credential);
}

TEST_F(NodeIdentity, ACertificateMustBeForThisKey) {
    const net::SecretKey elsewhere = net::SecretKey::generate();
    const auto key = make_key(folder / "a");
    ASSERT_TRUE(key);
    IdentityOptions joining = options();
    joining.certificate = net::to_text(net::vouch_for(elsewhere, key->public_key(), std::time(nullptr) + 1000));
    const Identity first = identity(joining);
    EXPECT_FALSE(first.made_key);
    EXPECT_EQ(identity(options()).credential, first.credential);

    IdentityOptions other = options("b");
    other.certificate = joining.certificate;
    EXPECT_THAT(error(other), HasSubstr("not for this node"));
    joining.certificate = net::to_text(net::vouch_for(elsewhere, key->public_key(), long_ago));
    EXPECT_THAT(error(joining), HasSubstr("expired"));
    joining.token = net::to_text(net::issue_token(elsewhere, std::time(nullptr) + 1000));
    EXPECT_THAT(error(joining), HasSubstr("exclude each other"));
}

TEST_F(NodeIdentity, AnExpiredCredentialIsRenewedWhereItsInstitutionIs) {
    const Institution here = institution("charite");
    const Identity first = identity(options());
    keep("a", net::vouch_for(here.key, first.key.public_key(), long_ago));
    EXPECT_EQ(identity(options()).institution_name, "charite");
    EXPECT_EQ(kept("a"), net::to_text(identity(options()).credential) + "\n");

    // Another institution of this machine is not the one that others know.
    keep("a", net::vouch_for(net::SecretKey::generate(), first.key.public_key(), long_ago));
    EXPECT_THAT(error(options()), HasSubstr("has expired; ask whoever keeps the institution"));
    IdentityOptions chosen = options();
    chosen.institution = "charite";
    EXPECT_EQ(identity(chosen).credential.institution, here.key.public_key());
}

TEST_F(NodeIdentity, OneOfSeveralInstitutionsIsToBeNamed) {
    institution("charite");
    const Institution other = institution("other");
    EXPECT_THAT(error(options()), HasSubstr("--institution charite or other"));
    IdentityOptions chosen = options();
    chosen.institution = "other";
    EXPECT_EQ(identity(chosen).credential.institution, other.key.public_key());
    EXPECT_EQ(identity(options()).institution_name, "other");
    chosen.institution = "charite";
    EXPECT_EQ(identity(chosen).institution_name, "charite");
    chosen.institution = "nobody";
    EXPECT_THAT(error(chosen), HasSubstr("chaos institution new nobody"));
}

TEST_F(NodeIdentity, WhatIsKeptMustFit) {
    institution("charite");
    const Identity first = identity(options());
    const Identity other = identity(options("b"));
    keep("a", other.credential);
    EXPECT_THAT(error(options()), HasSubstr("is not for the key in"));
    std::ofstream(folder / "a/credential") << "nonsense";
    EXPECT_THAT(error(options()), HasSubstr((folder / "a/credential").string()));
}

TEST_F(NodeIdentity, WhomAnInstitutionHasRevokedItDoesNotVouchForAgain) {
    const Institution here = institution("charite");
    const Identity first = identity(options());
    ASSERT_TRUE(issue_revocation(here, first.key.public_key()));
    fs::remove(folder / "a/credential");
    EXPECT_THAT(error(options()), HasSubstr("has revoked the key of this node"));
    EXPECT_THAT(*issued(here.file), SizeIs(2));
}

}  // namespace
}  // namespace chaos::node
