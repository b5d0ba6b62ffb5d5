#include "infer/direct_reader.h"

#include "infer/huge_pages.h"
#include "infer/window_plan.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

namespace chaos::infer {
namespace {

using chaos::test::TemporaryFolder;

std::string random_text(std::size_t bytes) {
    std::mt19937_64 random(7);
    std::string text(bytes, ' ');
    for (char& letter : text) letter = static_cast<char>(random());
    return text;
}

TEST(DirectReader, ReadsWhatIsThereInBothWays) {
    const TemporaryFolder folder;
    constexpr std::size_t size = 1 << 20;
    const std::string content = random_text(16 * size);
    const auto path = folder.write("file", content);
    const HugePages memory = HugePages::allocate(4 * size).value();
    for (const auto way : {DirectReader::Way::best, DirectReader::Way::threads}) {
        const auto reader = DirectReader::open(path, 4, way).value();
        for (std::size_t round = 0; round < 4; ++round) {
            std::set<std::size_t> tags;
            for (std::size_t tag = 0; tag < 4; ++tag)
                reader->start({tag, (round * 4 + tag) * size, memory.bytes().subspan(tag * size, size)});
            for (std::size_t i = 0; i < 4; ++i) {
                const auto done = reader->wait();
                EXPECT_FALSE(done.error) << done.error->message;
                tags.insert(done.tag);
            }
            EXPECT_EQ(tags.size(), 4U);
            EXPECT_EQ(std::memcmp(memory.data(), content.data() + round * 4 * size, 4 * size), 0) << reader->name();
        }
    }
}

TEST(DirectReader, SaysWhatCannotBeRead) {
    const TemporaryFolder folder;
    const auto path = folder.write("file", random_text(2 * direct_read_bytes));
    const HugePages memory = HugePages::allocate(4 * direct_read_bytes).value();
    for (const auto way : {DirectReader::Way::best, DirectReader::Way::threads}) {
        const auto reader = DirectReader::open(path, 2, way).value();
        reader->start({1, direct_read_bytes, memory.bytes()});
        const auto done = reader->wait();
        EXPECT_EQ(done.tag, 1U);
        ASSERT_TRUE(done.error);
        EXPECT_THAT(done.error->message, testing::HasSubstr("it was cut off"));
    }
    const auto missing = DirectReader::open(folder / "nothing", 2);
    ASSERT_FALSE(missing);
    EXPECT_THAT(missing.error().message, testing::HasSubstr("nothing: No such file"));
}

}  // namespace
}  // namespace chaos::infer
