#include "infer/tiles.h"

#include "base/assert.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <array>

namespace chaos::infer {
namespace {

// What ldtilecfg reads.
struct alignas(64) Shapes {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::array<std::uint8_t, 14> reserved{};
    std::array<std::uint16_t, 16> row_bytes{};
    std::array<std::uint8_t, 16> rows{};
};
static_assert(sizeof(Shapes) == 64);

constexpr Shapes shapes = [] {
    Shapes result;
    const auto shape = [&](std::size_t tile, std::size_t rows, std::size_t row_bytes) {
        result.rows[tile] = static_cast<std::uint8_t>(rows);
        result.row_bytes[tile] = static_cast<std::uint16_t>(row_bytes);
    };
    for (const std::size_t sums : {0, 1}) shape(sums, tile_tokens, tile_lanes * sizeof(std::int32_t));
    shape(2, tile_tokens, scale_columns);
    for (const std::size_t weights : {3, 4}) shape(weights, scale_columns / 4, tile_lanes * 4);
    return result;
}();

bool processor_has_tiles() {
    constexpr unsigned tile = 1U << 24;
    constexpr unsigned int8 = 1U << 25;
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & tile) != 0 && (edx & int8) != 0;
}

// Linux saves these registers only for processes that have asked.
bool system_permits_tiles() {
    constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long tile_data = 18;
    return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

bool tiles_available() {
    static const bool available = processor_has_tiles() && system_permits_tiles();
    return available;
}

Tiles::Tiles() {
    CHAOS_ASSERT(tiles_available());
    asm volatile("ldtilecfg %0" : : "m"(shapes));
}

Tiles::~Tiles() {
    asm volatile("tilerelease");
}

}  // namespace chaos::infer

#else

namespace chaos::infer {

bool tiles_available() {
    return false;
}

Tiles::Tiles() {
    CHAOS_ASSERT(false);
}

Tiles::~Tiles() = default;

}  // namespace chaos::infer

#endif
