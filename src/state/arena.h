// The arena: one flat, page-aligned block of floats that holds the whole state (manifest.h draws it). Tensors of
// the model are views into it, so an update, a shard or a hash is a walk over memory, not over tensors.
#pragma once

#include "state/manifest.h"

#include <cstdint>
#include <memory>
#include <span>

namespace chaos::state {

// Zeroed, page-aligned memory of a fixed size.
class Floats {
public:
    explicit Floats(std::uint64_t count);
    [[nodiscard]] std::span<float> span() { return {data_.get(), count_}; }
    [[nodiscard]] std::span<const float> span() const { return {data_.get(), count_}; }

private:
    struct Unmap {
        std::uint64_t bytes;
        void operator()(float* data) const;
    };
    std::uint64_t count_;
    std::unique_ptr<float[], Unmap> data_;
};

class Arena {
public:
    Arena(const Manifest& manifest, unsigned slots);

    [[nodiscard]] std::span<float> all() { return memory_.span(); }
    [[nodiscard]] std::span<const float> all() const { return memory_.span(); }
    [[nodiscard]] std::span<float> parameters() { return all().first(parameter_elements_); }
    [[nodiscard]] std::span<const float> parameters() const { return all().first(parameter_elements_); }
    [[nodiscard]] std::span<float> slot(unsigned index);
    [[nodiscard]] std::span<const float> slot(unsigned index) const;
    [[nodiscard]] std::span<float> buffers() { return all().last(buffer_elements_); }
    [[nodiscard]] std::span<const float> buffers() const { return all().last(buffer_elements_); }
    [[nodiscard]] unsigned slots() const { return slots_; }

private:
    std::uint64_t parameter_elements_;
    std::uint64_t buffer_elements_;
    unsigned slots_;
    Floats memory_;
};

}  // namespace chaos::state
