#include "infer/speed.h"

#include "base/assert.h"
#include "base/cores.h"
#include "base/median.h"
#include "infer/activations.h"
#include "infer/huge_pages.h"
#include "infer/multiply.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <vector>

namespace chaos::infer {
namespace {

using Clock = std::chrono::steady_clock;
// Quotas are given in tenths of a second.
constexpr std::chrono::milliseconds token_time{300};
constexpr std::chrono::milliseconds prompt_time{100};
constexpr std::chrono::milliseconds call_time{10};
constexpr std::size_t prompt_tokens = 32;
// A piece of a matrix as large as those that a division makes.
constexpr std::uint64_t product_bytes = std::uint64_t{4} << 20;

Activations rows_of_ones(std::size_t rows, const Matrix& matrix) {
    Activations::Forms forms;
    forms.add(matrix.format);
    Activations result;
    result.resize(rows, matrix.columns, forms);
    for (std::size_t row = 0; row < rows; ++row) result.set(row, std::vector<float>(matrix.columns, 1.0F));
    return result;
}

// Seconds of one call, of many. A quota, and others who use the machine, make the mean what it will be later; what most
// calls take is what this machine does while it computes.
struct CallTimes {
    double usual = 0.0;
    double mean = 0.0;
};
template <class Call>
CallTimes time_calls(std::chrono::milliseconds time, const Call& call) {
    call();  // threads wake, memory is there
    const auto begin = Clock::now();
    std::vector<double> calls;
    auto now = begin;
    while (now - begin < time) {
        const auto before = now;
        call();
        now = Clock::now();
        calls.push_back(std::chrono::duration<double>(now - before).count());
    }
    const double mean = std::chrono::duration<double>(now - begin).count() / static_cast<double>(calls.size());
    return {.usual = median(calls), .mean = mean};
}

}  // namespace

std::uint64_t share_permille(double usual_s, double mean_s, double allowed) {
    constexpr double all = 1000.0;
    const double computed = mean_s > 0.0 ? usual_s / mean_s : 1.0;
    return static_cast<std::uint64_t>(std::clamp(std::round(all * std::max(computed, allowed)), 1.0, all));
}

double allowed_share(std::size_t threads) {
    return std::min(1.0, cores_of_this_process() / static_cast<double>(threads));
}

Result<Speed> measure_speed(std::span<const PackedTensor> tensors, Pool& pool, std::uint64_t most_bytes) {
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
    std::size_t next = 0;
    const auto multiply_next = [&](const Activations& activations) {
        matrix.packed = memory.data() + next * each;
        next = (next + 1) % count;
        multiply(pool, activations, std::array{Product{matrix, results.data(), matrix.rows}});
    };
    const Activations one = rows_of_ones(1, matrix);
    const Activations many = rows_of_ones(prompt_tokens, matrix);
    const auto rate = [&](double seconds, std::size_t tokens) {
        return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(each * tokens) / seconds));
    };
    // Once through all of them: they come from memory as they will.
    for (std::size_t i = 0; i < count; ++i) multiply_next(one);
    Speed speed;
    const CallTimes token = time_calls(token_time, [&] { multiply_next(one); });
    speed.share_permille = share_permille(token.usual, token.mean, allowed_share(pool.threads()));
    speed.weight_bytes_per_s = rate(token.mean * 1e-3 * static_cast<double>(speed.share_permille), 1);
    speed.prompt_bytes_per_s = rate(time_calls(prompt_time, [&] { multiply_next(many); }).mean, prompt_tokens);
    Matrix little = matrix;
    little.rows = panel_rows;
    little.packed = memory.data();
    const auto multiply_little = [&] { multiply(pool, one, std::array{Product{little, results.data(), little.rows}}); };
    speed.call_ns = static_cast<std::uint64_t>(1e9 * time_calls(call_time, multiply_little).usual);
    return speed;
}

}  // namespace chaos::infer
