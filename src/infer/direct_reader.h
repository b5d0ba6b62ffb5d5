// Reads of a file that go on while others compute, past the system's cache: what is streamed again and again would only
// push out what others keep there. io_uring where the system allows it, a few threads where it does not; a file system
// without direct reads is read in the plain way, and what the cache took is given back.
//
// One thread calls everything. Offsets, sizes and memory are multiples of direct_read_bytes.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

namespace chaos::infer {

class DirectReader {
public:
    struct Read {
        std::size_t tag = 0;  // below `depth`, and of no read that goes on
        std::uint64_t offset = 0;
        std::span<std::byte> to;
    };
    struct Done {
        std::size_t tag = 0;
        std::optional<Error> error;
    };
    enum class Way { best, threads };

    // At most `depth` reads go on at once.
    static Result<std::unique_ptr<DirectReader>> open(const std::filesystem::path& path, std::size_t depth,
                                                      Way way = Way::best);
    // No read may go on.
    virtual ~DirectReader() = default;
    DirectReader(const DirectReader&) = delete;
    DirectReader& operator=(const DirectReader&) = delete;

    virtual void start(const Read& read) = 0;
    // Waits until some read that was started has ended.
    [[nodiscard]] virtual Done wait() = 0;
    // "io_uring"
    [[nodiscard]] virtual const char* name() const = 0;

protected:
    DirectReader() = default;
};

}  // namespace chaos::infer
