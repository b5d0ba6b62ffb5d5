// A machine without LibTorch: everything but training works, and `train` says what to install.
#include "cli/process.h"
#include "cli/runs.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>

namespace chaos::test {
namespace {

using ::testing::HasSubstr;

TEST(WithoutLibTorch, TrainSaysWhatToInstall) {
    const TemporaryFolder folder;
    folder.write("run.toml", mlp_run("steps = 1"));
    // A plugin whose LibTorch is not there (built so for this test).
    const Outcome outcome = run_chaos({"train", "run.toml"}, folder.path(),
                                      [] { ::setenv("CHAOS_PLUGIN", CHAOS_PLUGIN_WITHOUT_LIBTORCH, 1); });
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("training needs LibTorch, which is not installed here; install it with: "
                                       "apt-get install libtorch-dev libopenblas0-openmp"));
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(WithoutLibTorch, OtherCommandsDoNotNotice) {
    const TemporaryFolder folder;
    const auto without = [] { ::setenv("CHAOS_PLUGIN", CHAOS_PLUGIN_WITHOUT_LIBTORCH, 1); };
    EXPECT_EQ(run_chaos({"--help"}, folder.path(), without).code, 0);
    EXPECT_THAT(run_chaos({"export", "none", "out"}, folder.path(), without).err, HasSubstr("not a run's folder"));
}

}  // namespace
}  // namespace chaos::test
