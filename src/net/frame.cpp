#include "net/frame.h"

#include <algorithm>

namespace chaos::net {
namespace {

constexpr std::size_t control_read_bytes = 64 << 10;  // frames that come together are read together

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

ControlReader::ControlReader() : buffer_(control_read_bytes) {}

std::span<std::byte> ControlReader::room() {
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
    if (buffer_.size() < wanted_) buffer_.resize(wanted_);
    return std::span(buffer_).subspan(end_);
}

void ControlReader::filled(std::size_t bytes) {
    CHAOS_ASSERT(bytes <= buffer_.size() - end_);
    end_ += bytes;
}

Result<std::optional<std::span<const std::byte>>> ControlReader::next() {
    const std::span<const std::byte> here = std::span(buffer_).subspan(begin_, end_ - begin_);
    wanted_ = control_head_bytes;
    if (here.size() < control_head_bytes) return std::optional<std::span<const std::byte>>();
    const Result<std::size_t> size = decode_control_size(here.first<control_head_bytes>());
    if (!size) return size.error();
    wanted_ = control_head_bytes + *size;
    if (here.size() < wanted_) return std::optional<std::span<const std::byte>>();
    begin_ += wanted_;
    wanted_ = control_head_bytes;
    return std::optional(here.subspan(control_head_bytes, *size));
}

}  // namespace chaos::net
