#include "net/frame.h"

namespace chaos::net {
namespace {

template <class T>
void put(std::byte*& at, T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) *at++ = static_cast<std::byte>(value >> (8 * i));
}

template <class T>
T take(const std::byte*& at) {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(*at++) << (8 * i));
    return value;
}

}  // namespace

std::array<std::byte, bulk_head_bytes> encode(const BulkHead& head) {
    std::array<std::byte, bulk_head_bytes> bytes{};
    std::byte* at = bytes.data();
    put(at, static_cast<std::uint32_t>(head.kind));
    put(at, head.bytes);
    put(at, head.first);
    put(at, head.second);
    put(at, head.third);
    put(at, head.fourth);
    put(at, head.fifth);
    return bytes;
}

Result<BulkHead> decode_bulk_head(std::span<const std::byte, bulk_head_bytes> bytes) {
    const std::byte* at = bytes.data();
    BulkHead head;
    const auto kind = take<std::uint32_t>(at);
    if (kind >= bulk_kinds) return Error{"bulk data of an unknown kind"};
    head.kind = static_cast<BulkKind>(kind);
    head.bytes = take<std::uint32_t>(at);
    if (head.bytes > max_bulk_bytes) return Error{"a bulk frame is larger than the limit"};
    head.first = take<std::uint64_t>(at);
    head.second = take<std::uint64_t>(at);
    head.third = take<std::uint64_t>(at);
    head.fourth = take<std::uint32_t>(at);
    head.fifth = take<std::uint32_t>(at);
    return head;
}

std::array<std::byte, control_head_bytes> encode_control_size(std::size_t size) {
    std::array<std::byte, control_head_bytes> bytes{};
    std::byte* at = bytes.data();
    put(at, static_cast<std::uint32_t>(size));
    return bytes;
}

Result<std::size_t> decode_control_size(std::span<const std::byte, control_head_bytes> bytes) {
    const std::byte* at = bytes.data();
    const auto size = take<std::uint32_t>(at);
    if (size > max_control_bytes) return Error{"a control frame is larger than the limit"};
    return std::size_t{size};
}

}  // namespace chaos::net
