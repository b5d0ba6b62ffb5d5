#include "infer/forecast.h"

#include "infer/activations.h"
#include "infer/multiply.h"
#include "infer/window.h"

#include <array>
#include <chrono>
#include <map>
#include <vector>

namespace chaos::infer {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds measured_time{200};

double seconds(Clock::duration time) {
    return std::chrono::duration<double>(time).count();
}

Result<double> measure_disk(Window& window) {
    const auto begin = Clock::now();
    std::uint64_t bytes = 0;
    while (true) {
        for (std::size_t part = 0; part < window.parts().size(); ++part) {
            if (window.is_pinned(part)) continue;
            CHAOS_CHECK(window.acquire(part));
            window.release(part);
            bytes += window.parts()[part].read_bytes();
            const auto now = Clock::now();
            if (now - begin > measured_time) return static_cast<double>(bytes) / seconds(now - begin);
        }
    }
}

// One row of activations for every width that matrices have, in the forms that those of that width need.
std::map<std::size_t, Activations> activations_for(std::span<const PackedTensor> tensors) {
    std::map<std::size_t, Activations::Forms> forms;
    for (const PackedTensor& tensor : tensors) forms[tensor.shape.columns].add(tensor.shape.format);
    std::map<std::size_t, Activations> result;
    for (const auto& [columns, needed] : forms) {
        Activations& row = result[columns];
        row.resize(1, columns, needed);
        row.set(0, std::vector<float>(columns, 1.0F));
    }
    return result;
}

Result<double> measure_compute(const Model& model, Window& window, Pool& pool) {
    const auto activations = activations_for(model.tensors());
    std::vector<float> results;
    const auto begin = Clock::now();
    Clock::duration multiplied{};
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < window.parts().size() && Clock::now() - begin < measured_time; ++i) {
        const Part& part = window.parts()[i];
        Matrix matrix = model.tensors()[part.tensor].shape;
        matrix.rows = part.panels * panel_rows;
        results.resize(matrix.rows);
        matrix.packed = window.is_pinned(i) ? window.pinned(i) : nullptr;
        if (matrix.packed == nullptr) {
            CHAOS_TRY(matrix.packed, window.acquire(i));
        }
        const auto from = Clock::now();
        multiply(pool, activations.at(matrix.columns), std::array{Product{matrix, results.data(), matrix.rows}});
        multiplied += Clock::now() - from;
        if (!window.is_pinned(i)) window.release(i);
        bytes += part.bytes;
    }
    return seconds(multiplied) * static_cast<double>(packed_bytes(model.tensors())) / static_cast<double>(bytes);
}

}  // namespace

Result<Forecast> forecast(const Model& model, Pool& pool) {
    Window& window = *model.window();
    Forecast result;
    result.streamed_bytes = window.plan().streamed_bytes;
    CHAOS_TRY(result.disk_bytes_per_s, measure_disk(window));
    CHAOS_TRY(result.compute_s, measure_compute(model, window, pool));
    return result;
}

}  // namespace chaos::infer
