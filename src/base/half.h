// Numbers of 16 bits, as files of weights have them: f16, and bf16, the upper half of a float. To f16 values are
// rounded to nearest, ties to even; what is not a number stays so.
#pragma once

#include <cstdint>

namespace chaos {

[[nodiscard]] float f16_to_float(std::uint16_t bits);
[[nodiscard]] std::uint16_t float_to_f16(float value);
[[nodiscard]] float bf16_to_float(std::uint16_t bits);

}  // namespace chaos
