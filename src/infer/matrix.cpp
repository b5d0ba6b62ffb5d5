#include "infer/matrix.h"

#include "base/assert.h"
#include "base/half.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace chaos::infer {
namespace {

constexpr std::size_t scale_bytes = 2;
constexpr std::size_t panel_scale_bytes = panel_rows * scale_bytes;

// Bytes of one value, of those that are not quantized.
std::size_t value_bytes(Format format) {
    return format == Format::f32 ? 4 : 2;
}

// Bytes of 32 columns of one row: a scale and the values.
std::size_t group_bytes(Format format) {
    return scale_bytes + (format == Format::q8_0 ? scale_columns : scale_columns / 2);
}

// Nothing is 0: with a scale of 0 it adds nothing, and 8 stands for the value 0.
void clear_group(Format format, std::byte* group) {
    std::memset(group, 0, panel_scale_bytes);
    std::memset(group + panel_scale_bytes, format == Format::q4_0 ? 0x88 : 0, (group_bytes(format) - 2) * panel_rows);
}

void pack_group(Format format, const std::byte* from, std::size_t row, std::byte* group) {
    std::memcpy(group + row * scale_bytes, from, scale_bytes);
    std::byte* to = group + panel_scale_bytes + row * 4;
    if (format == Format::q8_0) {
        for (std::size_t i = 0; i < scale_columns; i += 4) {
            std::memcpy(to + i * panel_rows, from + scale_bytes + i, 4);
        }
        return;
    }
    // Eight bytes of a file have columns i..i+7 in their low halves and i+16..i+23 in their high ones.
    static_assert(std::endian::native == std::endian::little);
    const auto pack_eight = [&](std::uint64_t columns, std::size_t first) {
        const std::uint64_t halves = columns & 0x0f0f'0f0f'0f0f'0f0f;
        const auto word = static_cast<std::uint32_t>(halves | halves >> 28);
        std::memcpy(to + first / 2 * panel_rows, &word, sizeof word);
    };
    for (std::size_t i = 0; i < scale_columns / 2; i += 8) {
        std::uint64_t eight = 0;
        std::memcpy(&eight, from + scale_bytes + i, sizeof eight);
        pack_eight(eight, i);
        pack_eight(eight >> 4, i + scale_columns / 2);
    }
}

}  // namespace

const char* name_of(Format format) {
    constexpr std::array names{"f32", "f16", "bf16", "q8_0", "q4_0"};
    return names[static_cast<std::size_t>(format)];
}

bool is_quantized(Format format) {
    return format == Format::q8_0 || format == Format::q4_0;
}

bool fits(Format format, std::size_t columns) {
    return !is_quantized(format) || columns % scale_columns == 0;
}

std::size_t row_bytes(Format format, std::size_t columns) {
    CHAOS_ASSERT(fits(format, columns));
    return is_quantized(format) ? columns / scale_columns * group_bytes(format) : columns * value_bytes(format);
}

std::size_t panel_bytes(Format format, std::size_t columns) {
    return row_bytes(format, columns) * panel_rows;
}

std::size_t panels_of(std::size_t rows) {
    return (rows + panel_rows - 1) / panel_rows;
}

std::size_t packed_bytes(Format format, std::size_t rows, std::size_t columns) {
    return panels_of(rows) * panel_bytes(format, columns);
}

void pack_panel(Format format, std::size_t columns, std::span<const std::byte* const> rows, std::byte* panel) {
    CHAOS_ASSERT(fits(format, columns) && rows.size() <= panel_rows);
    if (is_quantized(format)) {
        const std::size_t from_bytes = group_bytes(format);
        for (std::size_t i = 0; i < columns / scale_columns; ++i) {
            std::byte* group = panel + i * from_bytes * panel_rows;
            if (rows.size() < panel_rows) clear_group(format, group);
            for (std::size_t row = 0; row < rows.size(); ++row)
                pack_group(format, rows[row] + i * from_bytes, row, group);
        }
        return;
    }
    const std::size_t bytes = value_bytes(format);
    if (rows.size() < panel_rows) std::memset(panel, 0, panel_bytes(format, columns));
    for (std::size_t column = 0; column < columns; ++column) {
        std::byte* to = panel + column * panel_rows * bytes;
        for (std::size_t row = 0; row < rows.size(); ++row)
            std::memcpy(to + row * bytes, rows[row] + column * bytes, bytes);
    }
}

}  // namespace chaos::infer
