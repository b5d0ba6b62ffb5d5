#include "base/file.h"

#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos {
namespace {

using test::TemporaryFolder;
using ::testing::HasSubstr;

std::size_t files_in(const std::filesystem::path& folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(File, ReadsWhatWasWritten) {
    const TemporaryFolder folder;
    ASSERT_TRUE(write_file_atomically(folder / "a", "hello"));
    EXPECT_EQ(*read_file(folder / "a"), "hello");
    EXPECT_EQ(MappedFile::open(folder / "a")->bytes().size(), 5U);
    EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(File, MapsAnEmptyFile) {
    const TemporaryFolder folder;
    EXPECT_TRUE(MappedFile::open(folder.write("empty", ""))->bytes().empty());
}

TEST(File, ErrorsNameTheFile) {
    const TemporaryFolder folder;
    EXPECT_THAT(read_file(folder / "none").error().message, HasSubstr("none: No such file"));
    EXPECT_THAT(read_file(folder.path()).error().message, HasSubstr("not a regular file"));
    EXPECT_THAT(write_file_atomically(folder / "no/where", "x").error().message, HasSubstr("no/where"));
}

TEST(File, AFailedWriteLeavesTheOldFileAndNothingElse) {
    const TemporaryFolder folder;
    const auto path = folder.write("a", "old");
    const auto failed = write_file_atomically(path, [](const Sink& sink) -> Result<void> {
        CHAOS_CHECK(sink(std::as_bytes(std::span("half", 4))));
        return Error{"the world ended"};
    });
    EXPECT_EQ(failed.error().message, "the world ended");
    EXPECT_EQ(*read_file(path), "old");
    EXPECT_EQ(files_in(folder.path()), 1U);
}

}  // namespace
}  // namespace chaos
