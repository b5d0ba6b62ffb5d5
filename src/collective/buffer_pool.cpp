#include "collective/buffer_pool.h"

#include <map>
#include <new>
#include <vector>

namespace chaos::collective {
namespace {

constexpr std::align_val_t alignment{64};
constexpr std::uint64_t forgotten_after_takes = 4096;

}  // namespace

struct BufferPool::Shelf {
    explicit Shelf(std::uint64_t max_idle) : max_idle_bytes(max_idle) {}
    ~Shelf() {
        for (const auto& [bytes, kept] : idle) free_all(kept);
    }
    Shelf(const Shelf&) = delete;
    Shelf& operator=(const Shelf&) = delete;

    std::byte* take(std::uint64_t bytes) {
        used_bytes += bytes;
        Kept& kept = idle[bytes];
        kept.asked_for = ++takes;
        if (!kept.blocks.empty()) {
            std::byte* block = kept.blocks.back();
            kept.blocks.pop_back();
            idle_bytes -= bytes;
            return block;
        }
        forget_sizes();
        return static_cast<std::byte*>(operator new(bytes, alignment));
    }

    void give_back(std::byte* block, std::uint64_t bytes) {
        used_bytes -= bytes;
        if (idle_bytes + bytes > max_idle_bytes) return operator delete(block, alignment);
        idle[bytes].blocks.push_back(block);
        idle_bytes += bytes;
    }

    // Another plan has chunks of other sizes: those that nobody asks for any more would stay for ever.
    void forget_sizes() {
        std::erase_if(idle, [&](const auto& entry) {
            const auto& [bytes, kept] = entry;
            if (kept.asked_for + forgotten_after_takes >= takes) return false;
            free_all(kept);
            idle_bytes -= bytes * kept.blocks.size();
            return true;
        });
    }

    struct Kept {
        std::vector<std::byte*> blocks;
        std::uint64_t asked_for = 0;  // the number of the last take of this size
    };
    static void free_all(const Kept& kept) {
        for (std::byte* block : kept.blocks) operator delete(block, alignment);
    }

    std::uint64_t max_idle_bytes;
    std::uint64_t used_bytes = 0;
    std::uint64_t idle_bytes = 0;
    std::uint64_t takes = 0;
    std::map<std::uint64_t, Kept> idle;  // by size
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
