#include "state/arena.h"

#include "base/assert.h"

#include <sys/mman.h>
#include <new>

namespace chaos::state {
namespace {

// Anonymous pages are zero, and are not backed by memory before somebody writes to them. Huge pages, where the
// kernel grants them, save the update pass most of its address translation.
float* map_zeroed(std::uint64_t bytes) {
    if (bytes == 0) return nullptr;
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    ::madvise(data, bytes, MADV_HUGEPAGE);
    return static_cast<float*>(data);
}

}  // namespace

void Floats::Unmap::operator()(float* data) const {
    if (data != nullptr) ::munmap(data, bytes);
}

Floats::Floats(std::uint64_t count)
    : count_(count), data_(map_zeroed(count * sizeof(float)), Unmap{count * sizeof(float)}) {}

Arena::Arena(const Manifest& manifest, unsigned slots)
    : parameter_elements_(manifest.parameter_elements()),
      buffer_elements_(manifest.buffer_elements()),
      slots_(slots),
      memory_(parameter_elements_ * (1 + slots) + buffer_elements_) {}

std::span<float> Arena::slot(unsigned index) {
    CHAOS_ASSERT(index < slots_);
    return all().subspan(parameter_elements_ * (1 + index), parameter_elements_);
}

std::span<const float> Arena::slot(unsigned index) const {
    CHAOS_ASSERT(index < slots_);
    return all().subspan(parameter_elements_ * (1 + index), parameter_elements_);
}

}  // namespace chaos::state
