#include "base/slot_file.h"

#include "base/file.h"
#include "temporary_folder.h"

#include <gtest/gtest.h>

namespace chaos {
namespace {

std::optional<std::string> value_at(const std::filesystem::path& path) {
    const Result<SlotFile> file = SlotFile::open(path);
    EXPECT_TRUE(file) << file.error().message;
    return file->found();
}

TEST(SlotFile, HasNoValueBeforeTheFirstWrite) {
    const test::TemporaryFolder folder;
    EXPECT_EQ(value_at(folder.path() / "value"), std::nullopt);
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "value"));
}

TEST(SlotFile, KeepsWhatWasWrittenLastWhateverItsSize) {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "value";
    for (const std::size_t size : {5UL, 0UL, 4096UL, 4097UL, 100UL, 50'000UL, 3UL}) {
        for (const char letter : {'a', 'b', 'c'}) {
            Result<SlotFile> file = SlotFile::open(path);
            ASSERT_TRUE(file) << file.error().message;
            ASSERT_TRUE(file->write("gone"));
            ASSERT_TRUE(file->write(std::string(size, letter)));
            EXPECT_EQ(value_at(path), std::string(size, letter));
        }
    }
}

// Wherever a write is torn, the value before it is there.
TEST(SlotFile, AWriteThatWasTornLeavesTheValueBefore) {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "value";
    Result<SlotFile> file = SlotFile::open(path);
    ASSERT_TRUE(file && file->write("one") && file->write("two"));
    const Result<std::string> before = read_file(path);
    ASSERT_TRUE(file->write("three"));
    const Result<std::string> after = read_file(path);
    ASSERT_TRUE(before && after);
    ASSERT_EQ(before->size(), after->size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < before->size(); ++i) different += (*before)[i] != (*after)[i];
    ASSERT_GT(different, 5U);
    std::size_t torn = 0;
    for (std::size_t i = 0; i < before->size() && torn < different; ++i) {
        if ((*before)[i] == (*after)[i]) continue;
        ASSERT_TRUE(write_file_atomically(path, after->substr(0, i) + before->substr(i)));
        EXPECT_EQ(value_at(path), "two") << "torn after " << torn << " bytes";
        ++torn;
    }
}

TEST(SlotFile, RefusesWhatIsNotItsOwn) {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "value";
    for (const std::string& content : {std::string("not a value"), std::string(), std::string(9000, 'x')}) {
        ASSERT_TRUE(write_file_atomically(path, content));
        const Result<SlotFile> file = SlotFile::open(path);
        ASSERT_FALSE(file);
        EXPECT_NE(file.error().message.find(path.string()), std::string::npos);
    }
}

}  // namespace
}  // namespace chaos
