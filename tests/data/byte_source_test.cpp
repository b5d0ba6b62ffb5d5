#include "data/byte_source.h"

#include "data/files.h"

namespace chaos::data {
namespace {

using test::byte_pattern;
using test::gzip;
using testing::HasSubstr;

struct Outcome {
    std::string bytes;
    std::string error;
    bool cut_short = false;
};

// Reads everything in pieces of `piece` bytes.
Outcome read_all(const std::string& file, std::size_t piece) {
    ByteSource source(std::as_bytes(std::span(file)));
    Outcome outcome;
    std::string buffer(piece, '\0');
    while (true) {
        const auto got = source.read(std::as_writable_bytes(std::span(buffer)));
        if (!got) {
            outcome.error = got.error().message;
            return outcome;
        }
        outcome.bytes.append(buffer, 0, *got);
        EXPECT_LE(outcome.bytes.size(), source.at_most());
        if (*got < piece) break;
    }
    outcome.cut_short = source.cut_short();
    return outcome;
}

TEST(ByteSource, GivesPlainBytesAsTheyAre) {
    const std::string content = byte_pattern(1000);
    for (const std::size_t piece : {1U, 7U, 1000U, 4096U}) EXPECT_EQ(read_all(content, piece).bytes, content);
    EXPECT_EQ(read_all("", 4).bytes, "");
    EXPECT_EQ(read_all("\x1f", 4).bytes, "\x1f");
}

TEST(ByteSource, UnpacksGzip) {
    const std::string content = byte_pattern(100000);
    for (const std::size_t piece : {1U, 333U, 100000U, 1U << 20}) {
        const Outcome outcome = read_all(gzip(content), piece);
        EXPECT_EQ(outcome.bytes, content);
        EXPECT_FALSE(outcome.cut_short);
    }
}

TEST(ByteSource, ConcatenatesGzipMembers) {
    EXPECT_EQ(read_all(gzip("one ") + gzip("") + gzip("two"), 2).bytes, "one two");
}

TEST(ByteSource, ItsBoundHoldsForTheMostCompressibleBytes) {
    const std::string zeros(10 << 20, '\0');
    EXPECT_EQ(read_all(gzip(zeros), 1 << 16).bytes, zeros);
}

TEST(ByteSource, NoticesGzipThatIsCutShort) {
    const std::string content = byte_pattern(3000);
    const std::string packed = gzip(content);
    for (std::size_t size = 2; size < packed.size(); ++size) {
        const Outcome outcome = read_all(packed.substr(0, size), 100);
        ASSERT_EQ(outcome.error, "") << size;
        ASSERT_TRUE(outcome.cut_short) << size;
        ASSERT_EQ(outcome.bytes, content.substr(0, outcome.bytes.size())) << size;
    }
}

TEST(ByteSource, NoticesDamagedGzip) {
    std::string packed = gzip(byte_pattern(3000));
    packed[packed.size() - 6] ^= 1;  // in the checksum
    EXPECT_THAT(read_all(packed, 100).error, HasSubstr("is damaged: incorrect data check"));
    EXPECT_THAT(read_all(gzip("x") + "more", 100).error, HasSubstr("is damaged: incorrect header check"));
}

}  // namespace
}  // namespace chaos::data
