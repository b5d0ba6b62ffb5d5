// The tile unit of some x86 processors (AMX-INT8): eight registers of up to 16 rows of 64 bytes, and an instruction
// that multiplies two of them as matrices of bytes. It is several times faster than vectors are; its sums are integers,
// hence the same.
//
//   Tiles tiles;                                   the calling thread's registers, as tile_products() wants them
//   tile_products(activations, weights, sums);     as often as one likes
#pragma once

#include "infer/activations.h"
#include "infer/matrix.h"

#include <cstddef>
#include <cstdint>

namespace chaos::infer {

inline constexpr std::size_t tile_tokens = 16;  // rows of activations
inline constexpr std::size_t tile_lanes = 16;   // rows of weights in one register
static_assert(panel_rows == 2 * tile_lanes);

// Whether this machine has the unit and the system lets this process use it.
[[nodiscard]] bool tiles_available();

// While one lives, its thread's registers are in use; the system has more to save when it switches to another thread.
// Where tiles are available only.
class Tiles {
public:
    Tiles();
    ~Tiles();
    Tiles(const Tiles&) = delete;
    Tiles& operator=(const Tiles&) = delete;
};

// Sums of products of 32 columns: of 16 rows of `activations`, as Activations has them, and the 32 rows of `weights`,
// in words of 4 columns as q8_0's panels have them. First those of rows 0 to 15 of weights, 16 for each token, then
// those of rows 16 to 31.
inline void tile_products([[maybe_unused]] const std::int8_t* activations, [[maybe_unused]] const std::byte* weights,
                          [[maybe_unused]] std::int32_t* sums) {
#if defined(__x86_64__)
    // The compiler has no names for these registers unless it is told to use them everywhere.
    constexpr std::int64_t activation_stride = activation_columns;
    constexpr std::int64_t weight_stride = panel_rows * 4;
    constexpr std::int64_t sum_stride = tile_lanes * sizeof(std::int32_t);
    asm volatile(
        "tileloadd (%[activations], %[activation_stride], 1), %%tmm2\n\t"
        "tileloadd (%[weights], %[weight_stride], 1), %%tmm3\n\t"
        "tileloadd 64(%[weights], %[weight_stride], 1), %%tmm4\n\t"
        "tilezero %%tmm0\n\t"
        "tilezero %%tmm1\n\t"
        "tdpbssd %%tmm3, %%tmm2, %%tmm0\n\t"
        "tdpbssd %%tmm4, %%tmm2, %%tmm1\n\t"
        "tilestored %%tmm0, (%[sums], %[sum_stride], 1)\n\t"
        "tilestored %%tmm1, 1024(%[sums], %[sum_stride], 1)"
        :
        : [activations] "r"(activations), [activation_stride] "r"(activation_stride), [weights] "r"(weights),
          [weight_stride] "r"(weight_stride), [sums] "r"(sums), [sum_stride] "r"(sum_stride)
        : "memory");
#endif
}

}  // namespace chaos::infer
