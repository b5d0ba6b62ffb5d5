#include "base/half.h"

#include <bit>

namespace chaos {

float f16_to_float(std::uint16_t bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const std::uint32_t rest = bits & 0x7fffU;
    if (rest >= 0x7c00U) {  // infinite, or not a number, which becomes quiet
        const std::uint32_t quiet = rest > 0x7c00U ? 0x0040'0000U : 0U;
        return std::bit_cast<float>(sign | 0x7f80'0000U | quiet | ((rest & 0x3ffU) << 13));
    }
    // As the low bits of a float of exponent 2^-14 * 2^14, which subnormal ones need: a product that is exact.
    const float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}

std::uint16_t float_to_f16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
    const std::uint32_t rest = bits & 0x7fff'ffffU;
    const auto signed_as = [&](std::uint32_t half) { return static_cast<std::uint16_t>(sign | half); };
    if (rest > 0x7f80'0000U) return signed_as(0x7e00U | ((rest >> 13) & 0x3ffU));
    if (rest >= 0x477f'f000U) return signed_as(0x7c00U);  // from 65520 on
    if (rest < 0x3880'0000U) {
        // Below 2^-14: adding 0.5 leaves the multiple of 2^-24 in the low bits, rounded by the addition.
        const float sum = std::bit_cast<float>(rest) + 0.5F;
        return signed_as(std::bit_cast<std::uint32_t>(sum) - 0x3f00'0000U);
    }
    const std::uint32_t odd = (rest >> 13) & 1U;
    return signed_as((rest - 0x3800'0000U + 0xfffU + odd) >> 13);
}

float bf16_to_float(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace chaos
