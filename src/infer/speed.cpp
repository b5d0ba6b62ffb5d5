#include "infer/speed.h"

#include "base/assert.h"
#include "infer/activations.h"
#include "infer/huge_pages.h"
#include "infer/multiply.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

namespace chaos::infer {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds measured_time{80};
constexpr std::uint64_t most_bytes = std::uint64_t{96} << 20;
constexpr std::size_t prompt_tokens = 32;
// A piece of a matrix as large as those that a division makes.
constexpr std::uint64_t product_bytes = std::uint64_t{4} << 20;

Activations rows_of_ones(std::size_t rows, std::size_t columns) {
    Activations result;
    result.resize(rows, columns, {.floats = true, .bytes = true});
    for (std::size_t row = 0; row < rows; ++row) result.set(row, std::vector<float>(columns, 1.0F));
    return result;
}

// Seconds of one product, the least of several rounds: others who use the machine do not count.
template <class Multiply>
double least_seconds(const Multiply& multiply) {
    double least = 1e9;
    const auto begin = Clock::now();
    for (int round = 0; round < 3 || Clock::now() - begin < measured_time; ++round) {
        const auto from = Clock::now();
        multiply();
        least = std::min(least, std::chrono::duration<double>(Clock::now() - from).count());
    }
    return least;
}

}  // namespace

Result<Speed> measure_speed(std::span<const PackedTensor> tensors, Pool& pool) {
    CHAOS_ASSERT(!tensors.empty());
    const auto bytes_of = [](const PackedTensor& each) {
        return packed_bytes(each.shape.format, each.shape.rows, each.shape.columns);
    };
    const PackedTensor& largest =
        *std::max_element(tensors.begin(), tensors.end(),
                          [&](const PackedTensor& a, const PackedTensor& b) { return bytes_of(a) < bytes_of(b); });
    Matrix matrix = largest.shape;
    const std::size_t panel = panel_bytes(matrix.format, matrix.columns);
    matrix.rows =
        std::max<std::size_t>(1, std::min<std::uint64_t>(product_bytes, bytes_of(largest)) / panel) * panel_rows;
    const std::uint64_t each = packed_bytes(matrix.format, matrix.rows, matrix.columns);
    const std::size_t count = std::max<std::uint64_t>(1, std::min(most_bytes, packed_bytes(tensors)) / each);
    CHAOS_TRY(const HugePages memory, HugePages::allocate(count * each));
    // Pages that nobody wrote to would all be one.
    for (std::size_t at = 0; at < memory.bytes().size(); at += 4096) memory.data()[at] = std::byte{0};

    std::vector<float> results(prompt_tokens * matrix.rows);
    const auto multiply_all = [&](const Activations& activations) {
        for (std::size_t i = 0; i < count; ++i) {
            matrix.packed = memory.data() + i * each;
            multiply(pool, activations, std::array{Product{matrix, results.data(), matrix.rows}});
        }
    };
    const Activations one = rows_of_ones(1, matrix.columns);
    const Activations many = rows_of_ones(prompt_tokens, matrix.columns);
    const auto rate = [&](double seconds, std::size_t tokens) {
        return std::max<std::uint64_t>(
            1, static_cast<std::uint64_t>(static_cast<double>(count * each * tokens) / seconds));
    };
    Speed speed;
    speed.weight_bytes_per_s = rate(least_seconds([&] { multiply_all(one); }), 1);
    speed.prompt_bytes_per_s = rate(least_seconds([&] { multiply_all(many); }), prompt_tokens);
    Matrix little = matrix;
    little.rows = panel_rows;
    little.packed = memory.data();
    speed.call_ns = static_cast<std::uint64_t>(
        1e9 * least_seconds([&] { multiply(pool, one, std::array{Product{little, results.data(), little.rows}}); }));
    return speed;
}

}  // namespace chaos::infer
