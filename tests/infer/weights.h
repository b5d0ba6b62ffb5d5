// Random weights for tests: rows as files have them, packed, and as doubles.
#pragma once

#include "base/half.h"
#include "base/random.h"
#include "infer/huge_pages.h"
#include "infer/matrix.h"

#include <array>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

namespace chaos::infer::test {

inline constexpr std::array all_formats{Format::f32, Format::f16, Format::bf16, Format::q8_0, Format::q4_0};

// Every pattern of bits that a file may hold in a row, as long as numbers are finite.
inline std::vector<std::byte> random_file_row(Format format, std::size_t columns, std::mt19937_64& random) {
    std::vector<std::byte> row(row_bytes(format, columns));
    const auto put = [&](std::size_t offset, auto value) { std::memcpy(row.data() + offset, &value, sizeof value); };
    const auto normal = [&] { return random_normal(random(), 0, 0); };
    if (is_quantized(format)) {
        const std::size_t bytes = row_bytes(format, scale_columns);
        for (std::byte& byte : row) byte = static_cast<std::byte>(random());
        for (std::size_t offset = 0; offset < row.size(); offset += bytes) put(offset, float_to_f16(normal() * 0.01F));
        return row;
    }
    for (std::size_t i = 0; i < columns; ++i) {
        const float value = normal();
        if (format == Format::f32) put(i * 4, value);
        if (format == Format::f16) put(i * 2, float_to_f16(value));
        if (format == Format::bf16) put(i * 2, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
    }
    return row;
}

inline std::vector<double> values_of(Format format, std::size_t columns, const std::vector<std::byte>& row) {
    const auto half = [&](std::size_t offset) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, row.data() + offset, 2);
        return bits;
    };
    std::vector<double> values(columns);
    for (std::size_t i = 0; i < columns; ++i) {
        const std::size_t group = i / 32;
        const std::size_t within = i % 32;
        if (format == Format::f32) {
            float value = 0.0F;
            std::memcpy(&value, row.data() + i * 4, 4);
            values[i] = static_cast<double>(value);
        } else if (format == Format::f16) {
            values[i] = static_cast<double>(f16_to_float(half(i * 2)));
        } else if (format == Format::bf16) {
            values[i] = static_cast<double>(bf16_to_float(half(i * 2)));
        } else if (format == Format::q8_0) {
            values[i] = static_cast<double>(f16_to_float(half(group * 34))) *
                        static_cast<std::int8_t>(row[group * 34 + 2 + within]);
        } else {
            const auto both = static_cast<int>(row[group * 18 + 2 + within % 16]);
            values[i] =
                static_cast<double>(f16_to_float(half(group * 18))) * ((within < 16 ? both & 15 : both >> 4) - 8);
        }
    }
    return values;
}

struct Weights {
    std::vector<std::vector<std::byte>> file_rows;
    HugePages packed;
    Matrix matrix;

    // Columns [first, first + count) of all rows, as a matrix of their own.
    [[nodiscard]] Weights columns(std::size_t first, std::size_t count) const {
        std::vector<std::vector<std::byte>> part;
        for (const std::vector<std::byte>& row : file_rows) {
            const auto begin = row.begin() + static_cast<std::ptrdiff_t>(row_bytes(matrix.format, first));
            part.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(row_bytes(matrix.format, count)));
        }
        return pack(matrix.format, count, std::move(part));
    }

    [[nodiscard]] static Weights pack(Format format, std::size_t columns, std::vector<std::vector<std::byte>> rows) {
        Weights weights;
        weights.packed = std::move(HugePages::allocate(packed_bytes(format, rows.size(), columns))).value();
        weights.matrix = {format, rows.size(), columns, weights.packed.data()};
        for (std::size_t first = 0; first < rows.size(); first += panel_rows) {
            std::vector<const std::byte*> panel;
            for (std::size_t i = first; i < std::min(first + panel_rows, rows.size()); ++i)
                panel.push_back(rows[i].data());
            pack_panel(format, columns, panel,
                       weights.packed.data() + first / panel_rows * panel_bytes(format, columns));
        }
        weights.file_rows = std::move(rows);
        return weights;
    }

    [[nodiscard]] static Weights random(Format format, std::size_t rows, std::size_t columns, std::mt19937_64& random) {
        std::vector<std::vector<std::byte>> file_rows;
        for (std::size_t i = 0; i < rows; ++i) file_rows.push_back(random_file_row(format, columns, random));
        return pack(format, columns, std::move(file_rows));
    }
};

}  // namespace chaos::infer::test
