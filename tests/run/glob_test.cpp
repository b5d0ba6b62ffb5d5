#include "run/glob.h"

#include "run/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::run {
namespace {

using ::testing::ElementsAre;

TEST(Glob, Matches) {
    EXPECT_TRUE(matches("*", "abc"));
    EXPECT_TRUE(matches("a*c", "abc"));
    EXPECT_TRUE(matches("a*c", "ac"));
    EXPECT_TRUE(matches("*.txt", "a.txt.txt"));
    EXPECT_TRUE(matches("*a*b*", "xaybz"));
    EXPECT_TRUE(matches("?bc", "abc"));
    EXPECT_TRUE(matches("a**", "a"));
    EXPECT_FALSE(matches("a?c", "ac"));
    EXPECT_FALSE(matches("*.txt", "a.txt.gz"));
    EXPECT_FALSE(matches("abc", "abcd"));
    EXPECT_FALSE(matches("abcd", "abc"));
    EXPECT_FALSE(matches("a[b]c*", "abc"));
}

TEST(Glob, ALeadingDotNeedsADot) {
    EXPECT_FALSE(matches("*", ".hidden"));
    EXPECT_TRUE(matches(".*", ".hidden"));
}

TEST(Glob, ManyStarsAreFast) {
    std::string pattern;
    for (int i = 0; i < 100; ++i) pattern += "a*";
    EXPECT_FALSE(matches(pattern + "b", std::string(10'000, 'a')));
}

TEST(Glob, FilesAreSortedAndFoldersLeftOut) {
    const test::TemporaryFolder folder;
    for (const char* name : {"b10.txt", "b9.txt", "B.txt", "a.txt", "a.gz", ".c.txt", "folder.txt/x"})
        folder.write(name);
    const auto files = matching_files(folder.path(), "*.txt");
    ASSERT_TRUE(files.ok());
    EXPECT_THAT(*files, ElementsAre(folder.path() / "B.txt", folder.path() / "a.txt", folder.path() / "b10.txt",
                                    folder.path() / "b9.txt"));
}

TEST(Glob, AMissingFolderIsAnError) {
    const auto files = matching_files("/no/such/folder", "*");
    ASSERT_FALSE(files.ok());
    EXPECT_EQ(files.error().message, "cannot list /no/such/folder: No such file or directory");
}

}  // namespace
}  // namespace chaos::run
