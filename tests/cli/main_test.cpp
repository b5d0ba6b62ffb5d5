#include "cli/process.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <chrono>

namespace chaos::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Main, HelpTellsTheCommands) {
    const TemporaryFolder folder;
    const Outcome help = run_chaos({"--help"}, folder.path());
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, HasSubstr("train"));
    EXPECT_THAT(help.out, HasSubstr("export"));
    EXPECT_EQ(run_chaos({}, folder.path()).out, help.out);
    EXPECT_THAT(run_chaos({"train", "--help"}, folder.path()).out, HasSubstr("Examples:"));
    EXPECT_THAT(run_chaos({"--version"}, folder.path()).out, HasSubstr("chaos "));
}

TEST(Main, MisspeltCommandsAreSuggested) {
    const TemporaryFolder folder;
    const Outcome outcome = run_chaos({"trian"}, folder.path());
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, "chaos: there is no command \"trian\"; did you mean \"train\"?\n");
}

TEST(Main, WrongFlagsExitWithTwo) {
    const TemporaryFolder folder;
    EXPECT_EQ(run_chaos({"--nonsense"}, folder.path()).code, 2);
    EXPECT_EQ(run_chaos({"train"}, folder.path()).code, 2);
    EXPECT_EQ(run_chaos({"train", "run.toml", "--max-steps", "many"}, folder.path()).code, 2);
}

// The quickest of several, because the machine may be busy; a process that loads LibTorch never comes near it, however
// often it is tried.
constexpr std::chrono::milliseconds start_limit{50};

std::chrono::milliseconds quickest(const std::vector<std::string>& arguments, int expected_code) {
    const TemporaryFolder folder;
    auto best = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < 10 || (i < 300 && best >= start_limit); ++i) {
        const auto begin = std::chrono::steady_clock::now();
        EXPECT_EQ(run_chaos(arguments, folder.path()).code, expected_code);
        best = std::min(best, std::chrono::steady_clock::now() - begin);
    }
    return std::chrono::duration_cast<std::chrono::milliseconds>(best);
}

// Sanitizers slow a start down by more than LibTorch does.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Main, CommandsThatDoNotTrainStartWithin50Milliseconds) {
    EXPECT_LT(quickest({"--help"}, 0), start_limit);
    EXPECT_LT(quickest({"--version"}, 0), start_limit);
    EXPECT_LT(quickest({"export", "none", "out"}, 2), start_limit);
}
#endif

TEST(Main, DoesNotLinkLibTorch) {
    const TemporaryFolder folder;
    ASSERT_EQ(std::system(("ldd " CHAOS_BINARY " > " + (folder / "libraries").string()).c_str()), 0);
    std::stringstream libraries;
    libraries << std::ifstream(folder / "libraries").rdbuf();
    EXPECT_THAT(libraries.str(), HasSubstr("libcrypto"));
    EXPECT_THAT(libraries.str(), Not(HasSubstr("torch")));
}

}  // namespace
}  // namespace chaos::test
