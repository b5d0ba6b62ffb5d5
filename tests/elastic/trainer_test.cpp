#include "elastic/trainer.h"

#include "base/file.h"
#include "elastic/runs.h"
#include "shared.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cstring>

namespace chaos::elastic {
namespace {

using test::TemporaryFolder;
using ::testing::HasSubstr;

bool same_state(Trainer& a, Trainer& b) {
    return a.progress().lineage == b.progress().lineage && a.progress().step == b.progress().step &&
           std::memcmp(a.engine().arena().all().data(), b.engine().arena().all().data(),
                       a.engine().arena().all().size_bytes()) == 0;
}

TEST(Trainer, SaysWhereTheDivisionOfABatchMatters) {
    const TemporaryFolder folder;
    EXPECT_THAT(open(parse(folder, synthetic_resnet)).caution(), HasSubstr("depends on how a batch is divided"));
    EXPECT_EQ(open(parse(folder, synthetic_mlp)).caution(), "");
    EXPECT_EQ(open(parse(folder, torchscript)).caution(), "");
}

class Resume : public ::testing::TestWithParam<const char*> {};

TEST_P(Resume, ContinuesBitIdentically) {
    const TemporaryFolder folder;
    const run::Run run = parse(folder, GetParam());
    Trainer straight = open(run);
    take_steps(straight, 20);

    Trainer first = open(run);
    take_steps(first, 10);
    ASSERT_TRUE(first.evaluate());
    ASSERT_TRUE(first.save(folder / "checkpoint"));
    Trainer second = open(run);
    const auto resumed = second.resume(folder / "checkpoint");
    ASSERT_TRUE(resumed) << resumed.error().message;
    EXPECT_TRUE(same_state(first, second));
    take_steps(second, 10);
    EXPECT_TRUE(same_state(straight, second));
}

INSTANTIATE_TEST_SUITE_P(Models, Resume,
                         ::testing::Values(text_llama, synthetic_mlp, synthetic_resnet, synthetic_alexnet,
                                           torchscript));

TEST(Trainer, LearnsSyntheticClasses) {
    const TemporaryFolder folder;
    run::Run run = parse(folder, synthetic_mlp);
    run.train.steps = 300;
    Trainer trainer = open(run);
    const auto before = trainer.evaluate();
    take_steps(trainer, 300);
    const auto after = trainer.evaluate();
    EXPECT_LT((*after)->loss, 0.5 * (*before)->loss);
}

TEST(Trainer, DataPositionIsTwoIntegers) {
    const TemporaryFolder folder;
    Trainer trainer = open(parse(folder, synthetic_mlp));
    take_steps(trainer, 12);  // 96 samples of 8 each, over 90 training samples
    EXPECT_EQ(trainer.dataset().train_samples(), 90U);
    EXPECT_EQ(trainer.progress().pass, 1U);
    EXPECT_EQ(trainer.progress().index, 6U);
}

TEST(Trainer, ABatchRunsAcrossTheEndOfAPass) {
    const TemporaryFolder folder;
    run::Run run = parse(folder, synthetic_resnet);  // BatchNorm on 1 x 1 maps cannot compute a sample alone
    run.data.samples = 10;
    run.data.held_out = 1;
    Trainer trainer = open(run);
    take_steps(trainer, 5);  // of 4 each, over 9 samples
    EXPECT_EQ(trainer.progress().pass, 2U);
    EXPECT_EQ(trainer.progress().index, 2U);
    for (const float value : trainer.engine().arena().all()) ASSERT_TRUE(std::isfinite(value));
}

TEST(Trainer, ALossThatIsNotFiniteStopsBeforeTheUpdate) {
    const TemporaryFolder folder;
    Trainer trainer = open(parse(folder, synthetic_mlp));
    take_steps(trainer, 2);
    const std::vector<float> before(trainer.engine().arena().all().begin(), trainer.engine().arena().all().end());
    trainer.engine().arena().parameters()[0] = std::numeric_limits<float>::infinity();
    const auto record = trainer.step();
    ASSERT_FALSE(record);
    EXPECT_THAT(record.error().message, HasSubstr("step 3: the loss is not a finite number"));
    EXPECT_EQ(trainer.progress().step, 2U);
    trainer.engine().arena().parameters()[0] = before[0];
    EXPECT_TRUE(std::equal(before.begin(), before.end(), trainer.engine().arena().all().begin()));
}

TEST(Trainer, NotesTheBestLoss) {
    const TemporaryFolder folder;
    Trainer trainer = open(parse(folder, synthetic_mlp));
    EXPECT_TRUE(trainer.note_loss(2.0));
    EXPECT_FALSE(trainer.note_loss(2.0));
    EXPECT_TRUE(trainer.note_loss(1.0));
    EXPECT_FALSE(trainer.note_loss(std::nan("")));
    EXPECT_EQ(trainer.progress().best_loss, 1.0);
}

TEST(Trainer, ChangedDataIsAnotherRun) {
    const TemporaryFolder folder;
    const run::Run run = parse(folder, text_llama);
    Trainer trainer = open(run);
    ASSERT_TRUE(trainer.save(folder / "checkpoint"));
    folder.write("text.txt", *read_file(folder / "text.txt") + "more");
    Trainer other = open(run);
    EXPECT_THAT(other.resume(folder / "checkpoint").error().message, HasSubstr("data.content"));
}

TEST(RealData, AnMlpReads95PercentOfHandwrittenDigits) {
    CHAOS_NEED_SHARED("data");
    const TemporaryFolder folder;
    const std::string data = test::shared("data").string();
    Trainer trainer = open(parse(folder, R"(
[model]
kind = "mlp"
[data]
kind = "idx"
files = ")" + data + R"(/t10k-images-idx3-ubyte.gz"
labels = ")" + data + R"(/t10k-labels-idx1-ubyte.gz"
held_out = 2000
[train]
steps = 1000
batch = 64
)"));
    take_steps(trainer, 1000);
    const auto measure = trainer.evaluate();
    EXPECT_EQ((*measure)->targets, 2000U);
    EXPECT_GE(static_cast<double>((*measure)->correct.value()) / 2000.0, 0.95);
}

}  // namespace
}  // namespace chaos::elastic
