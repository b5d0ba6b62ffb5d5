// The bytes of a file one after the other; decompressed on the way where the content says gzip. The caller decides
// how many it takes, so a small file that would unpack into a huge one costs nothing.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <memory>
#include <span>

namespace chaos::data {

class ByteSource {
public:
    // `file` outlives the source.
    explicit ByteSource(std::span<const std::byte> file);
    ~ByteSource();
    ByteSource(const ByteSource&) = delete;
    ByteSource& operator=(const ByteSource&) = delete;

    // Fills `out` and returns how much of it was filled: less than all of it where the bytes end. Damaged gzip data
    // is an error that goes on from the file's name: "is damaged: ...".
    [[nodiscard]] Result<std::size_t> read(std::span<std::byte> out);

    // The source gives no more bytes than this in all: what a reader may reserve whatever a header claims.
    [[nodiscard]] std::size_t at_most() const;

    [[nodiscard]] bool is_gzip() const { return inflate_ != nullptr; }
    // The bytes ended in the middle of gzip data.
    [[nodiscard]] bool cut_short() const { return cut_short_; }

private:
    struct Inflate;

    Result<std::size_t> read_gzip(std::span<std::byte> out);

    std::size_t file_bytes_;
    std::span<const std::byte> rest_;  // of the file
    std::unique_ptr<Inflate> inflate_;
    bool cut_short_ = false;
};

}  // namespace chaos::data
