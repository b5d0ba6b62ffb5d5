// How messages and bulk data lie on a connection. Numbers are little-endian.
//
//   control   | size: 4 | a Control message of that many bytes (proto/link.proto) |
//   bulk      | kind: 4 | size: 4 | first: 8 | second: 8 | third: 8 | fourth: 4 | fifth: 4 | payload of `size` bytes |
//
// What a bulk frame's five numbers mean is up to those who send that kind.
#pragma once

#include "base/result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace chaos::net {

inline constexpr std::size_t max_control_bytes = (4 << 20) + 1024;  // a message of the cluster, and its wrapping
inline constexpr std::size_t max_bulk_bytes = 1 << 20;
inline constexpr std::size_t control_head_bytes = 4;
inline constexpr std::size_t bulk_head_bytes = 40;

// Gradients leave before state. Results, which a member lacks that is behind, have a connection of their own: on the
// others, gradients of the next step may be waiting for that very member.
enum class BulkKind : std::uint8_t { gradients, state, results };
inline constexpr std::size_t bulk_kinds = 3;

struct BulkHead {
    BulkKind kind = BulkKind::gradients;
    std::uint32_t bytes = 0;
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    std::uint32_t fourth = 0;
    std::uint32_t fifth = 0;
    bool operator==(const BulkHead&) const = default;
};

[[nodiscard]] std::array<std::byte, bulk_head_bytes> encode(const BulkHead& head);
[[nodiscard]] Result<BulkHead> decode_bulk_head(std::span<const std::byte, bulk_head_bytes> bytes);

[[nodiscard]] std::array<std::byte, control_head_bytes> encode_control_size(std::size_t size);
[[nodiscard]] Result<std::size_t> decode_control_size(std::span<const std::byte, control_head_bytes> bytes);

// Cuts what arrives on a control connection into frames, in whatever pieces it comes. It never holds more than the
// largest frame and what came with its end.
class ControlReader {
public:
    ControlReader();

    // Where the next bytes are to be written; never empty once next() has been asked until it had no more.
    [[nodiscard]] std::span<std::byte> room();
    // So many were written there.
    void filled(std::size_t bytes);
    // The content of the next frame, valid until room() is asked for; none: more bytes are needed.
    [[nodiscard]] Result<std::optional<std::span<const std::byte>>> next();

private:
    std::vector<std::byte> buffer_;
    std::size_t begin_ = 0;  // of what is not yet cut
    std::size_t end_ = 0;
    std::size_t wanted_ = control_head_bytes;  // of the frame at begin_, as far as that is known
};

}  // namespace chaos::net
