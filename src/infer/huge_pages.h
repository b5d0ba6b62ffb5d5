// Memory for weights: in huge pages where the kernel grants them, without which reading costs a third of its rate.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <span>
#include <utility>

namespace chaos::infer {

class HugePages {
public:
    HugePages() = default;
    // All zeros. Pages are taken from the system when they are first written to.
    [[nodiscard]] static Result<HugePages> allocate(std::size_t bytes);
    HugePages(HugePages&& other) noexcept
        : first_(std::exchange(other.first_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    HugePages& operator=(HugePages&& other) noexcept {
        std::swap(first_, other.first_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~HugePages();

    [[nodiscard]] std::byte* data() const { return first_; }
    [[nodiscard]] std::span<std::byte> bytes() const { return {first_, bytes_}; }

private:
    std::byte* first_ = nullptr;  // aligned to a huge page
    std::size_t bytes_ = 0;
};

}  // namespace chaos::infer
