#include "cli/process.h"
#include "net/credential.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <filesystem>

namespace chaos::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string last_word(const std::string& text) {
    const std::size_t end = text.find_last_not_of('\n');
    const std::size_t begin = text.find_last_of(" \n", end);
    return text.substr(begin + 1, end - begin);
}

// Runs with the keys of this folder.
Outcome with_home(const TemporaryFolder& folder, std::vector<std::string> arguments) {
    ::setenv("CHAOS_HOME", (folder.path() / "home").c_str(), 1);
    return run_chaos(arguments, folder.path());
}

TEST(Identity, ANodeGetsOneKeyAndKeepsIt) {
    const TemporaryFolder folder;
    EXPECT_THAT(with_home(folder, {"key", "show"}).err, HasSubstr("chaos key new"));
    const Outcome made = with_home(folder, {"key", "new"});
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(with_home(folder, {"key", "show"}).out, made.out);
    const Outcome again = with_home(folder, {"key", "new"});
    EXPECT_EQ(again.code, 2);
    EXPECT_THAT(again.err, HasSubstr("File exists"));
    EXPECT_EQ(with_home(folder, {"key", "show"}).out, made.out);
}

TEST(Identity, ANodesKeyLiesInItsFolder) {
    const TemporaryFolder folder;
    EXPECT_THAT(with_home(folder, {"key", "show", "--dir", "a"}).err, HasSubstr("chaos key new --dir a"));
    const Outcome made = with_home(folder, {"key", "new", "--dir", "a"});
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(with_home(folder, {"key", "show", "--dir", "a"}).out, made.out);
    EXPECT_NE(with_home(folder, {"key", "new", "--dir", "b"}).out, made.out);
    EXPECT_TRUE(std::filesystem::exists(folder / "a/node.key"));
    EXPECT_FALSE(std::filesystem::exists(folder / "home"));
}

TEST(Identity, AnInstitutionVouchesForNodes) {
    const TemporaryFolder folder;
    const std::string key = last_word(with_home(folder, {"key", "new"}).out);
    const Outcome made = with_home(folder, {"institution", "new", "charite"});
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_THAT(with_home(folder, {"institution", "show"}).out, StartsWith(last_word(made.out)));

    const Outcome certificate = with_home(folder, {"institution", "invite", "charite", "--node", key});
    ASSERT_EQ(certificate.code, 0) << certificate.err;
    const auto read = net::credential_from_text(last_word(certificate.out));
    ASSERT_TRUE(read) << read.error().message;
    const cluster::NodeId node = net::node_id(*net::key_from_text(key));
    EXPECT_TRUE(net::check(*read, node));
    EXPECT_TRUE(net::check_date(*read, std::time(nullptr)));
    EXPECT_EQ(net::to_text(read->institution), last_word(made.out));

    const Outcome token = with_home(folder, {"institution", "invite", "charite", "--days", "1"});
    ASSERT_EQ(token.code, 0) << token.err;
    const auto redeemed = net::redeem(*net::token_from_text(last_word(token.out)), *net::key_from_text(key));
    EXPECT_TRUE(net::check(redeemed, node));
    EXPECT_TRUE(net::check_date(redeemed, std::time(nullptr)));
    EXPECT_FALSE(net::check_date(redeemed, std::time(nullptr) + 2 * 86'400));
}

TEST(Identity, AnInstitutionKnowsWhomItInvitedAndWithdrawsThem) {
    const TemporaryFolder folder;
    const std::string key = last_word(with_home(folder, {"key", "new"}).out);
    const std::string root = last_word(with_home(folder, {"institution", "new", "charite"}).out);
    with_home(folder, {"institution", "new", "other"});
    with_home(folder, {"institution", "invite", "charite", "--node", key});
    const auto token = net::token_from_text(last_word(with_home(folder, {"institution", "invite", "charite"}).out));
    ASSERT_TRUE(token) << token.error().message;
    const std::string token_key = net::to_text(net::key_of(*token));
    const std::string shown = with_home(folder, {"institution", "show"}).out;
    EXPECT_THAT(shown, ContainsRegex("certificate  until ....-..-..  " + key));
    EXPECT_THAT(shown, ContainsRegex("token        until ....-..-..  " + token_key));
    EXPECT_THAT(shown, HasSubstr("  other\n"));

    for (const std::string& subject : {key, token_key}) {
        const Outcome revoked = with_home(folder, {"institution", "revoke", subject});
        ASSERT_EQ(revoked.code, 0) << revoked.err;
        const auto read = net::revocation_from_text(last_word(revoked.out));
        ASSERT_TRUE(read) << read.error().message;
        EXPECT_TRUE(net::check(*read));
        EXPECT_EQ(net::to_text(read->subject), subject);
        EXPECT_EQ(net::to_text(read->institution), root);
        EXPECT_THAT(with_home(folder, {"institution", "show"}).out, ContainsRegex("revocation +" + subject));
    }
    // Whom nobody here has invited, an institution may withdraw by name.
    const std::string unknown(64, 'a');
    const Outcome asked = with_home(folder, {"institution", "revoke", unknown});
    EXPECT_EQ(asked.code, 2);
    EXPECT_THAT(asked.err, HasSubstr("--name NAME"));
    EXPECT_EQ(with_home(folder, {"institution", "revoke", unknown, "--name", "other"}).code, 0);
    EXPECT_THAT(with_home(folder, {"institution", "invite", "other", "--node", key}).out, StartsWith("chaos-node-"));
    EXPECT_THAT(with_home(folder, {"institution", "revoke", key}).err, HasSubstr("several institutions have invited"));
}

TEST(Identity, WhatCannotBeWrittenDownIsNotIssued) {
    const TemporaryFolder folder;
    with_home(folder, {"institution", "new", "charite"});
    std::filesystem::create_directories(folder.path() / "home" / "institutions" / "charite.issued");
    const Outcome refused = with_home(folder, {"institution", "invite", "charite"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err, HasSubstr("charite.issued"));
}

TEST(Identity, MistakesAreExplained) {
    const TemporaryFolder folder;
    EXPECT_THAT(with_home(folder, {"institution", "invite", "nobody"}).err, HasSubstr("chaos institution new nobody"));
    EXPECT_THAT(with_home(folder, {"institution", "new", "../x"}).err, HasSubstr("letters, digits"));
    with_home(folder, {"institution", "new", "a"});
    EXPECT_THAT(with_home(folder, {"institution", "invite", "a", "--node", "12"}).err, HasSubstr("64 hexadecimal"));
    EXPECT_EQ(with_home(folder, {"institution", "invite", "a", "--node", "12"}).code, 2);
    EXPECT_THAT(with_home(folder, {"institution", "revoke", "12"}).err, HasSubstr("64 hexadecimal"));
    EXPECT_THAT(with_home(folder, {"institution", "revoke", std::string(64, '0'), "--name", "nobody"}).err,
                HasSubstr("chaos institution new nobody"));
}

}  // namespace
}  // namespace chaos::test
