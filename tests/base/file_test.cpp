#include "base/file.h"

#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <csignal>

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

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

TEST(File, GrowsAndIsCut) {
    const TemporaryFolder folder;
    for (const char* part : {"one ", "two ", "three"}) {
        auto file = AppendFile::open(folder / "a");
        ASSERT_TRUE(file.ok() && file->append(bytes_of(part)));
    }
    auto file = AppendFile::open(folder / "a");
    EXPECT_EQ(file->size(), 13U);
    ASSERT_TRUE(file->cut(4));
    ASSERT_TRUE(file->append(bytes_of("more")));
    EXPECT_EQ(*read_file(folder / "a"), "one more");
    EXPECT_THAT(AppendFile::open(folder.path()).error().message, HasSubstr(folder.path().string()));
}

TEST(File, AnAppendIsWholeOrLeavesNothing) {
    const TemporaryFolder folder;
    auto file = AppendFile::open(folder / "a");
    ASSERT_TRUE(file->append(bytes_of("first")));
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit tight{.rlim_cur = 8, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
    const auto failed = file->append(bytes_of("second"));
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_THAT(failed.error().message, HasSubstr("cannot write " + (folder / "a").string()));
    EXPECT_EQ(*read_file(folder / "a"), "first");
    ASSERT_TRUE(file->append(bytes_of(" third")));
    EXPECT_EQ(*read_file(folder / "a"), "first third");
}

}  // namespace
}  // namespace chaos
