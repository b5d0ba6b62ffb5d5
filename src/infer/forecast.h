// What a token will take in a window, from two short measurements: parts are streamed as fast as the disk can, then
// multiplied as fast as the threads can. Both go on at once, so the longer one counts. Attention is not in it: it grows
// with the text.
#pragma once

#include "base/result.h"
#include "infer/model.h"
#include "infer/pool.h"

#include <algorithm>
#include <cstdint>

namespace chaos::infer {

struct Forecast {
    double compute_s = 0.0;  // all products of one token
    double disk_bytes_per_s = 0.0;
    std::uint64_t streamed_bytes = 0;

    [[nodiscard]] double disk_s() const { return static_cast<double>(streamed_bytes) / disk_bytes_per_s; }
    [[nodiscard]] double token_s() const { return std::max(compute_s, disk_s()); }
};

// The model has a window.
[[nodiscard]] Result<Forecast> forecast(const Model& model, Pool& pool);

}  // namespace chaos::infer
