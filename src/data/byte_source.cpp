#include "data/byte_source.h"

#include <zlib.h>
#include <algorithm>
#include <cstring>
#include <string>

namespace chaos::data {

struct ByteSource::Inflate {
    z_stream stream{};
    bool member_ended = false;

    Inflate() {
        constexpr int gzip_only = 16 + MAX_WBITS;
        CHAOS_ASSERT(inflateInit2(&stream, gzip_only) == Z_OK);
    }
    ~Inflate() { inflateEnd(&stream); }
    Inflate(const Inflate&) = delete;
    Inflate& operator=(const Inflate&) = delete;
};

ByteSource::ByteSource(std::span<const std::byte> file) : file_bytes_(file.size()), rest_(file) {
    constexpr std::byte first{0x1f};
    constexpr std::byte second{0x8b};
    if (file.size() >= 2 && file[0] == first && file[1] == second) inflate_ = std::make_unique<Inflate>();
}

ByteSource::~ByteSource() = default;

std::size_t ByteSource::at_most() const {
    constexpr std::size_t max_deflate_ratio = 1032;  // a match of 258 bytes takes at least two bits
    return is_gzip() ? file_bytes_ * max_deflate_ratio : file_bytes_;
}

Result<std::size_t> ByteSource::read(std::span<std::byte> out) {
    if (is_gzip()) return read_gzip(out);
    const std::size_t size = std::min(out.size(), rest_.size());
    if (size > 0) std::memcpy(out.data(), rest_.data(), size);
    rest_ = rest_.subspan(size);
    return size;
}

Result<std::size_t> ByteSource::read_gzip(std::span<std::byte> out) {
    constexpr std::size_t max_piece_bytes = std::size_t{1} << 30;  // zlib counts in 32 bits
    z_stream& stream = inflate_->stream;
    std::size_t filled = 0;
    while (filled < out.size()) {
        if (inflate_->member_ended) {
            if (rest_.empty()) break;
            // A gzip file may consist of several members; their contents are concatenated.
            CHAOS_ASSERT(inflateReset(&stream) == Z_OK);
            inflate_->member_ended = false;
        }
        const std::size_t in_bytes = std::min(rest_.size(), max_piece_bytes);
        const std::size_t out_bytes = std::min(out.size() - filled, max_piece_bytes);
        // zlib's interface lacks a const; it does not write to its input.
        stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(rest_.data()));
        stream.avail_in = static_cast<uInt>(in_bytes);
        stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
        stream.avail_out = static_cast<uInt>(out_bytes);
        const int outcome = inflate(&stream, Z_NO_FLUSH);
        rest_ = rest_.subspan(in_bytes - stream.avail_in);
        filled += out_bytes - stream.avail_out;
        if (outcome == Z_STREAM_END) {
            inflate_->member_ended = true;
        } else if (outcome == Z_BUF_ERROR) {
            cut_short_ = true;
            break;
        } else if (outcome != Z_OK) {
            return Error{std::string("is damaged: ") + (stream.msg != nullptr ? stream.msg : "it cannot be unpacked")};
        }
    }
    return filled;
}

}  // namespace chaos::data
