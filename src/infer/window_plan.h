// How a model that is larger than the memory it may take is computed: some parts of its weights are pinned, the others
// are streamed from disk through a ring of slots, again and again (window.h). Every pass needs every part in the same
// order, so keeping what was used last would hit nothing, and a fixed set is pinned, as large as fits. Pinned parts are
// spread evenly over the pass, in short runs: while they are multiplied, the streamed ones between them arrive.
//
//   budget = program + keys and values + activations + ring + pinned
//
// A part is some panels of one matrix: products are the same, computed part by part.
#pragma once

#include "base/result.h"
#include "infer/packing.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace chaos::infer {

// Direct reads begin and end at multiples of this, in the file and in memory.
inline constexpr std::uint64_t direct_read_bytes = 4096;

struct Part {
    std::size_t tensor = 0;  // of packed_tensors()
    std::size_t first_panel = 0;
    std::size_t panels = 0;
    std::uint64_t offset = 0;  // in the packed bytes of the model
    std::uint64_t bytes = 0;

    // What is read of a file for it: whole blocks.
    [[nodiscard]] std::uint64_t read_begin() const { return offset / direct_read_bytes * direct_read_bytes; }
    [[nodiscard]] std::uint64_t read_bytes() const {
        const std::uint64_t end = (offset + bytes + direct_read_bytes - 1) / direct_read_bytes * direct_read_bytes;
        return end - read_begin();
    }
};

// Large enough for a disk's full rate, small enough that a few are no great part of a small budget.
inline constexpr std::uint64_t default_part_bytes = std::uint64_t{2} << 20;

// All tensors in parts of about `part_bytes`, in the order of use.
[[nodiscard]] std::vector<Part> parts_of(std::span<const PackedTensor> tensors,
                                         std::uint64_t part_bytes = default_part_bytes);

// So many tokens at once take so many bytes of activations and logits.
struct Batch {
    std::size_t tokens = 0;
    std::uint64_t bytes = 0;
};

struct WindowNeeds {
    std::uint64_t budget_bytes = 0;
    std::uint64_t program_bytes = 0;  // the program itself
    std::uint64_t cache_bytes = 0;    // keys and values
    std::span<const Batch> batches;   // from the most tokens to the least; the first that leaves enough is taken
    std::span<const Part> parts;
};

struct WindowPlan {
    Batch batch;
    bool resident = false;  // everything fits, and nothing is streamed
    std::vector<bool> pinned;
    std::uint64_t pinned_bytes = 0;
    std::size_t slots = 0;
    std::uint64_t slot_bytes = 0;
    std::uint64_t streamed_bytes = 0;  // are read in every pass
    std::string explanation;
};

inline constexpr std::size_t min_slots = 2;
inline constexpr std::size_t max_slots = 8;

// Refuses a budget that is too small and says the least one.
[[nodiscard]] Result<WindowPlan> plan_window(const WindowNeeds& needs);

// "1.2 GB"
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

}  // namespace chaos::infer
