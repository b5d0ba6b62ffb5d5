#include "net/frame.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace chaos::net {
namespace {

void give(ControlReader& reader, std::span<const std::byte> bytes) {
    const std::span<std::byte> room = reader.room();
    ASSERT_GE(room.size(), bytes.size());
    std::ranges::copy(bytes, room.begin());
    reader.filled(bytes.size());
}

std::vector<std::byte> framed(std::size_t size, std::byte filling) {
    std::vector<std::byte> frame(control_head_bytes + size, filling);
    std::ranges::copy(encode_control_size(size), frame.begin());
    return frame;
}

TEST(ControlReader, CutsFramesThatComeInPieces) {
    std::vector<std::byte> stream;
    for (std::size_t i = 0; i < 20; ++i) {
        const auto frame = framed(i * 7, std::byte(i));
        stream.insert(stream.end(), frame.begin(), frame.end());
    }
    for (const std::size_t piece : {1U, 3U, 50U, 5000U}) {
        ControlReader reader;
        std::size_t frames = 0;
        for (std::size_t at = 0; at < stream.size(); at += piece) {
            give(reader, std::span(stream).subspan(at, std::min(piece, stream.size() - at)));
            while (true) {
                const auto frame = reader.next();
                ASSERT_TRUE(frame);
                if (!frame->has_value()) break;
                EXPECT_EQ((*frame)->size(), frames * 7);
                EXPECT_TRUE(std::ranges::all_of(**frame, [&](std::byte byte) { return byte == std::byte(frames); }));
                ++frames;
            }
        }
        EXPECT_EQ(frames, 20U) << "pieces of " << piece;
    }
}

TEST(ControlReader, MakesRoomForTheLargestFrameAndRefusesALargerOne) {
    ControlReader reader;
    give(reader, encode_control_size(max_control_bytes));
    ASSERT_TRUE(reader.next());
    EXPECT_GE(reader.room().size(), max_control_bytes);
    ControlReader other;
    give(other, encode_control_size(max_control_bytes + 1));
    EXPECT_FALSE(other.next());
}

TEST(BulkHead, ReadsBack) {
    const BulkHead head{
        .kind = BulkKind::state, .bytes = 7, .first = 1, .second = 2, .third = 3, .fourth = 4, .fifth = 5};
    const auto read = decode_bulk_head(encode(head));
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, head);
    EXPECT_FALSE(decode_bulk_head(encode({.bytes = max_bulk_bytes + 1})));
}

}  // namespace
}  // namespace chaos::net
