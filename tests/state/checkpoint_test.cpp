#include "state/checkpoint.h"

#include "base/file.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace chaos::state {
namespace {

using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Example {
    Manifest manifest;
    run::Identity identity = {{"model.kind", "mlp"}, {"optimizer.learning_rate", "0.001"}};
    Progress progress;

    Example() {
        manifest.add_parameter("w", {4, 3}, true);
        manifest.add_parameter("b", {3}, false);
        manifest.add_buffer("mean", {2});
        progress = {12, 3, 45, sha256("lineage"), 0.1 + 0.2, 2};
    }
    Arena filled() const {
        Arena arena(manifest, 2);
        float value = 0.5F;
        for (float& element : arena.all()) element = value += 1.25F;
        return arena;
    }
    Result<void> save(const std::filesystem::path& path) const {
        return save_checkpoint(path, identity, manifest, filled(), progress);
    }
    Result<Progress> load(const std::filesystem::path& path, Arena& arena) const {
        return load_checkpoint(path, identity, manifest, arena);
    }
};

TEST(Checkpoint, ComesBackBitForBit) {
    const TemporaryFolder folder;
    const Example example;
    ASSERT_TRUE(example.save(folder / "c"));
    Arena arena(example.manifest, 2);
    const auto progress = example.load(folder / "c", arena);
    ASSERT_TRUE(progress) << progress.error().message;
    EXPECT_EQ(std::memcmp(arena.all().data(), example.filled().all().data(), arena.all().size_bytes()), 0);
    EXPECT_EQ(progress->step, 12U);
    EXPECT_EQ(progress->pass, 3U);
    EXPECT_EQ(progress->index, 45U);
    EXPECT_EQ(progress->lineage, example.progress.lineage);
    EXPECT_EQ(progress->best_loss, 0.1 + 0.2);
    EXPECT_EQ(progress->threads, 2U);
}

TEST(Checkpoint, EveryFlippedBitIsNoticedAndTheArenaUntouched) {
    const TemporaryFolder folder;
    const Example example;
    ASSERT_TRUE(example.save(folder / "c"));
    const std::string good = *read_file(folder / "c");
    for (std::size_t byte = 0; byte < good.size(); ++byte) {
        std::string bad = good;
        bad[byte] = static_cast<char>(bad[byte] ^ (1 << (byte % 8)));
        folder.write("bad", bad);
        Arena arena(example.manifest, 2);
        const auto loaded = example.load(folder / "bad", arena);
        ASSERT_FALSE(loaded) << "byte " << byte;
        EXPECT_THAT(loaded.error().message, HasSubstr("bad"));
        EXPECT_EQ(arena.all().front(), 0.0F);
    }
}

TEST(Checkpoint, EveryTruncationIsNoticed) {
    const TemporaryFolder folder;
    const Example example;
    ASSERT_TRUE(example.save(folder / "c"));
    const std::string good = *read_file(folder / "c");
    for (std::size_t size = 0; size < good.size(); size += 7) {
        folder.write("short", good.substr(0, size));
        Arena arena(example.manifest, 2);
        EXPECT_FALSE(example.load(folder / "short", arena)) << size;
    }
}

TEST(Checkpoint, OfAnotherRunIsRefusedWithTheDifference) {
    const TemporaryFolder folder;
    Example example;
    ASSERT_TRUE(example.save(folder / "c"));
    example.identity["optimizer.learning_rate"] = "0.01";
    Arena arena(example.manifest, 2);
    EXPECT_THAT(example.load(folder / "c", arena).error().message,
                HasSubstr("checkpoint of another run: it was trained with optimizer.learning_rate = 0.001, this run "
                          "has 0.01"));
}

TEST(Checkpoint, OfAnotherModelIsRefused) {
    const TemporaryFolder folder;
    Example example;
    ASSERT_TRUE(example.save(folder / "c"));
    example.manifest.add_parameter("more", {1}, false);
    Arena arena(example.manifest, 2);
    EXPECT_THAT(example.load(folder / "c", arena).error().message, HasSubstr("holds other tensors"));
}

TEST(Checkpoint, AnOrdinarySafetensorsFileIsNotACheckpoint) {
    const TemporaryFolder folder;
    ASSERT_TRUE(write_safetensors(folder / "c", {}, {}));
    EXPECT_THAT(open_checkpoint(folder / "c").error().message, HasSubstr("not a checkpoint of Chaos"));
}

TEST(Checkpoint, ADiskThatIsFullLosesNothing) {
    const TemporaryFolder folder;
    const Example example;
    ASSERT_TRUE(example.save(folder / "c"));
    const std::string before = *read_file(folder / "c");

    std::signal(SIGXFSZ, SIG_IGN);
    rlimit old{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    rlimit small = old;
    small.rlim_cur = 100;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto saved = example.save(folder / "c");
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);

    ASSERT_FALSE(saved);
    EXPECT_THAT(saved.error().message, HasSubstr("cannot write"));
    EXPECT_EQ(*read_file(folder / "c"), before);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(CheckpointFolder, ThatCannotBeListedIsNotAnEmptyFolder) {
    const TemporaryFolder folder;
    const CheckpointFolder missing{folder / "none"};
    ASSERT_FALSE(missing.steps());
    EXPECT_THAT(missing.steps().error().message, HasSubstr("cannot list the folder"));
}

TEST(CheckpointFolder, KeepsTheNewestAndTheBest) {
    const TemporaryFolder folder;
    const Example example;
    const CheckpointFolder checkpoints{folder.path()};
    for (const std::uint64_t step : {5ULL, 10ULL, 15ULL}) ASSERT_TRUE(example.save(checkpoints.path_of(step)));
    ASSERT_TRUE(checkpoints.mark_best(5));
    folder.write("step-000000000020.safetensors.tmp-99", "left by a crash");
    folder.write("unstable.tmp-99", "left by another");
    EXPECT_THAT(*checkpoints.steps(), ElementsAre(5, 10, 15));
    ASSERT_TRUE(checkpoints.prune(2));
    EXPECT_THAT(*checkpoints.steps(), ElementsAre(10, 15));
    EXPECT_TRUE(open_checkpoint(checkpoints.best()));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 3);
}

TEST(CheckpointFolder, WhatThisProcessIsWritingIsNotSweptAway) {
    const TemporaryFolder folder;
    const std::string own = "unstable.tmp-" + std::to_string(::getpid());
    folder.write(own, "not whole yet");
    ASSERT_TRUE(CheckpointFolder{folder.path()}.prune(1));
    EXPECT_TRUE(std::filesystem::exists(folder / own));
}

TEST(CheckpointFolder, WhatIsPutAsideIsNoCheckpointAnyMoreAndStaysForAWhile) {
    const TemporaryFolder folder;
    const Example example;
    const CheckpointFolder checkpoints{folder.path()};
    for (const std::uint64_t step : {5ULL, 10ULL, 15ULL, 20ULL}) ASSERT_TRUE(example.save(checkpoints.path_of(step)));
    EXPECT_THAT(*checkpoints.set_aside_after(20), ElementsAre());
    EXPECT_THAT(*checkpoints.set_aside_after(10), ElementsAre(15, 20));
    EXPECT_THAT(*checkpoints.steps(), ElementsAre(5, 10));
    EXPECT_TRUE(open_checkpoint(folder / "aside-step-000000000015.safetensors"));
    ASSERT_TRUE(checkpoints.prune(1));
    EXPECT_THAT(*checkpoints.steps(), ElementsAre(10));
    EXPECT_FALSE(std::filesystem::exists(folder / "aside-step-000000000015.safetensors"));
    EXPECT_TRUE(open_checkpoint(folder / "aside-step-000000000020.safetensors"));
}

}  // namespace
}  // namespace chaos::state
