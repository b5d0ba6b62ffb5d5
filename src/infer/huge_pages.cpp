#include "infer/huge_pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

namespace chaos::infer {
namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

std::size_t mapped_bytes(std::size_t bytes) {
    return (bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
}

}  // namespace

Result<HugePages> HugePages::allocate(std::size_t bytes) {
    const std::size_t wanted = mapped_bytes(bytes);
    if (wanted == 0) return HugePages();
    // One huge page more than needed, so that an aligned range lies inside; the rest is given back.
    void* mapped =
        ::mmap(nullptr, wanted + huge_page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        return Error{"no memory for " + std::to_string(bytes) + " bytes of weights: " + std::strerror(errno)};
    }
    auto* begin = static_cast<std::byte*>(mapped);
    const std::size_t past = reinterpret_cast<std::uintptr_t>(begin) % huge_page_bytes;
    const std::size_t before = past == 0 ? 0 : huge_page_bytes - past;
    if (before > 0) ::munmap(begin, before);
    if (before < huge_page_bytes) ::munmap(begin + before + wanted, huge_page_bytes - before);
    HugePages pages;
    pages.first_ = begin + before;
    pages.bytes_ = bytes;
    // A kernel without huge pages refuses this, and the memory is as good as any other.
    static_cast<void>(::madvise(pages.first_, wanted, MADV_HUGEPAGE));
    return pages;
}

HugePages::~HugePages() {
    if (first_ != nullptr) ::munmap(first_, mapped_bytes(bytes_));
}

}  // namespace chaos::infer
