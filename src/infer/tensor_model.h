// A language model as the tensor plan sees it (plan/tensor_plan.h): how many units of heads, FFN and vocabulary there
// are and what each of them weighs, packed. The weights themselves are not needed: shapes and formats are enough.
//
// Units of heads and FFN columns are those of slice.h (all heads are one where units do not divide them); vocabulary
// is divided by whole panels, at most about a thousand units of them.
#pragma once

#include "infer/config.h"
#include "infer/kv_cache.h"
#include "infer/matrix.h"
#include "infer/packing.h"
#include "infer/slice.h"
#include "plan/tensor_plan.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chaos::infer {

struct TensorUnits {
    std::int64_t heads = 1;         // query heads of one unit
    std::int64_t ffn_columns = 32;  // the last unit may have fewer, where they do not divide the FFN
    std::int64_t vocab_rows = 32;   // likewise
};
[[nodiscard]] TensorUnits tensor_units(const Config& config);

// The matrices that such a model would have if all were kept in the format; F16 where their columns do not fit it.
[[nodiscard]] std::vector<PackedTensor> packed_tensors(const Config& config, Format format);

// What is computed at once.
struct TensorUse {
    std::size_t context = 0;    // tokens of a sequence
    std::size_t sequences = 1;  // at once
    std::size_t batch = 1;      // tokens of one forward()
    KvType kv = KvType::f16;
};

// `tensors` are the model's, by packed_tensors().
[[nodiscard]] plan::TensorModel tensor_model(const Config& config, std::span<const PackedTensor> tensors,
                                             const TensorUse& use);

// Asks for a plan as nodes compute it. Devices, so many, and their links are to be added.
[[nodiscard]] plan::TensorRequest tensor_request(const Config& config, std::span<const PackedTensor> tensors,
                                                 const TensorUse& use, std::size_t devices);

// What a plan for such a model gives to a device.
[[nodiscard]] Slice slice_of(const Config& config, const plan::TensorShare& share);

}  // namespace chaos::infer
