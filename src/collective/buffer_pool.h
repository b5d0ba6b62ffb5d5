// Memory for chunks that wait: taken, handed to the network, and back again by itself when the last owner lets go.
// Buffers outlive the pool where somebody still owns one. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace chaos::collective {

// Shared by whoever reads it; aligned for vectors.
using Buffer = std::shared_ptr<std::byte>;

class BufferPool {
public:
    // Keeps at most `max_idle_bytes` of what came back, and nothing of a size that has not been asked for in a while.
    explicit BufferPool(std::uint64_t max_idle_bytes = std::uint64_t{1} << 30);

    [[nodiscard]] Buffer take(std::uint64_t bytes);

    [[nodiscard]] std::uint64_t used_bytes() const;
    [[nodiscard]] std::uint64_t idle_bytes() const;

private:
    struct Shelf;
    std::shared_ptr<Shelf> shelf_;
};

}  // namespace chaos::collective
