// What of a model is multiplied: its matrices, packed for the kernels panel by panel from the rows of its files. F32,
// F16, BF16, Q8_0 and Q4_0 stay what they are; other blocks are kept as Q8_0, whose rounding is far finer than theirs.
#pragma once

#include "base/result.h"
#include "infer/matrix.h"
#include "infer/model_file.h"
#include "infer/pool.h"
#include "infer/slice.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace chaos::infer {

// How much has been done.
using Progress = std::function<void(std::uint64_t bytes, std::uint64_t of_bytes)>;

struct PackedTensor {
    std::string name;
    Matrix shape;                    // without memory
    std::uint64_t offset = 0;        // of its panels, when those of all tensors lie one behind the other
    std::uint64_t first_row = 0;     // of the model's tensor
    std::uint64_t first_column = 0;  // likewise
};

// What a slice has of every matrix, in the order in which a token meets them; the embedding is one where it is the head
// too. Where a slice has nothing of a matrix, it has no rows or no columns.
[[nodiscard]] std::vector<PackedTensor> packed_tensors(const ModelFile& file, const Slice& slice);
// Of the whole model.
[[nodiscard]] std::vector<PackedTensor> packed_tensors(const ModelFile& file);
[[nodiscard]] std::uint64_t packed_bytes(std::span<const PackedTensor> tensors);

// Packs panels [first, first + count) of a tensor to `to`. The file's own pages are given back to the system.
[[nodiscard]] Result<void> pack_panels(const ModelFile& file, const PackedTensor& tensor, std::size_t first,
                                       std::size_t count, Pool& pool, std::byte* to);

// As many panels as give all threads enough to do between two words of progress, and take little memory.
[[nodiscard]] std::size_t panels_at_once(const PackedTensor& tensor);

}  // namespace chaos::infer
