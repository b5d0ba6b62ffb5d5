#include "collective/buffer_pool.h"

#include <map>
#include <new>
#include <vector>

namespace chaos::collective {
namespace {

constexpr std::align_val_t alignment{64};

}  // namespace

struct BufferPool::Shelf {
    explicit Shelf(std::uint64_t max_idle) : max_idle_bytes(max_idle) {}
    ~Shelf() {
        for (const auto& [bytes, blocks] : idle) {
            for (std::byte* block : blocks) operator delete(block, alignment);
        }
    }
    Shelf(const Shelf&) = delete;
    Shelf& operator=(const Shelf&) = delete;

    std::byte* take(std::uint64_t bytes) {
        used_bytes += bytes;
        if (const auto found = idle.find(bytes); found != idle.end() && !found->second.empty()) {
            std::byte* block = found->second.back();
            found->second.pop_back();
            idle_bytes -= bytes;
            return block;
        }
        return static_cast<std::byte*>(operator new(bytes, alignment));
    }

    void give_back(std::byte* block, std::uint64_t bytes) {
        used_bytes -= bytes;
        if (idle_bytes + bytes > max_idle_bytes) return operator delete(block, alignment);
        idle[bytes].push_back(block);
        idle_bytes += bytes;
    }

    std::uint64_t max_idle_bytes;
    std::uint64_t used_bytes = 0;
    std::uint64_t idle_bytes = 0;
    std::map<std::uint64_t, std::vector<std::byte*>> idle;  // by size
};

BufferPool::BufferPool(std::uint64_t max_idle_bytes) : shelf_(std::make_shared<Shelf>(max_idle_bytes)) {}

Buffer BufferPool::take(std::uint64_t bytes) {
    return {shelf_->take(bytes), [shelf = shelf_, bytes](std::byte* block) { shelf->give_back(block, bytes); }};
}

std::uint64_t BufferPool::used_bytes() const {
    return shelf_->used_bytes;
}

std::uint64_t BufferPool::idle_bytes() const {
    return shelf_->idle_bytes;
}

}  // namespace chaos::collective
