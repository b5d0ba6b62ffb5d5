#include "elastic/run_folder.h"

#include "elastic/runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::elastic {
namespace {

using test::TemporaryFolder;
using ::testing::HasSubstr;

TEST(RunFolder, IsLockedAgainstASecondProcess) {
    const TemporaryFolder folder;
    const auto first = RunFolder::open(folder / "run");
    ASSERT_TRUE(first);
    const auto second = RunFolder::open(folder / "run");
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr("in use by another process"));
}

TEST(RunFolder, ExportedModelStartsARunWithTheSameLoss) {
    const TemporaryFolder folder;
    const run::Run run = parse(folder, text_llama);
    Trainer trainer = open(run);
    take_steps(trainer, 5);
    const auto expected = trainer.evaluate();
    {
        const auto run_folder = RunFolder::open(folder / "run");
        ASSERT_TRUE(run_folder);
        ASSERT_TRUE(run_folder->describe(folder.write("run.toml", text_llama), trainer));
        ASSERT_TRUE(trainer.save(run_folder->checkpoints().path_of(5)));
    }
    const auto exported = export_run(folder / "run", folder / "model", Choice::newest);
    ASSERT_TRUE(exported) << exported.error().message;
    EXPECT_THAT(export_run(folder / "run", folder / "model", Choice::newest).error().message, HasSubstr("not empty"));
    EXPECT_THAT(export_run(folder / "run", folder / "best", Choice::best).error().message, HasSubstr("no best"));

    Trainer again = open(parse(folder, R"(
[model]
init = "model"
[data]
files = "text.txt"
context = 16
[train]
batch = 6
)"));
    EXPECT_EQ(again.tokenizer()->vocab_size(), 256);
    const auto found = again.evaluate();
    EXPECT_NEAR((*found)->loss, (*expected)->loss, 1e-5);
}

}  // namespace
}  // namespace chaos::elastic
