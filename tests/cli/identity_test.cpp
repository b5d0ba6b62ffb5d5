#include "cli/process.h"
#include "net/credential.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <filesystem>

namespace chaos::test {
namespace {

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
    EXPECT_TRUE(net::check(*read, *net::key_from_text(key), std::time(nullptr)));
    EXPECT_EQ(net::to_text(read->institution), last_word(made.out));

    const Outcome token = with_home(folder, {"institution", "invite", "charite", "--days", "1"});
    ASSERT_EQ(token.code, 0) << token.err;
    const auto redeemed = net::redeem(*net::token_from_text(last_word(token.out)), *net::key_from_text(key));
    EXPECT_TRUE(net::check(redeemed, *net::key_from_text(key), std::time(nullptr)));
    EXPECT_FALSE(net::check(redeemed, *net::key_from_text(key), std::time(nullptr) + 2 * 86'400));
}

TEST(Identity, MistakesAreExplained) {
    const TemporaryFolder folder;
    EXPECT_THAT(with_home(folder, {"institution", "invite", "nobody"}).err, HasSubstr("chaos institution new nobody"));
    EXPECT_THAT(with_home(folder, {"institution", "new", "../x"}).err, HasSubstr("letters, digits"));
    with_home(folder, {"institution", "new", "a"});
    EXPECT_THAT(with_home(folder, {"institution", "invite", "a", "--node", "12"}).err, HasSubstr("64 hexadecimal"));
    EXPECT_EQ(with_home(folder, {"institution", "invite", "a", "--node", "12"}).code, 2);
}

}  // namespace
}  // namespace chaos::test
