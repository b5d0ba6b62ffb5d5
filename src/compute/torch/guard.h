// The border between LibTorch, which throws, and the rest of Chaos, which does not.
#pragma once

#include "base/result.h"
#include "compute/torch/torch.h"

namespace chaos::compute {

// One sentence of what LibTorch said: the first line that says something, without the C++ or TorchScript stack.
[[nodiscard]] Error readable_error(const std::exception& error);

// Runs `body`, which returns a Result, on exactly `threads` threads, and turns what it throws into an Error. The
// number is looked at on every call because OpenMP keeps it per calling thread, and results depend on it; setting it
// costs milliseconds, as LibTorch then starts another pool of threads anew.
template <class Body>
[[nodiscard]] auto guarded(int threads, Body&& body) -> decltype(body()) {
    try {
        if (at::get_num_threads() != threads) at::set_num_threads(threads);
        return body();
    } catch (const std::exception& error) {
        return readable_error(error);
    }
}

}  // namespace chaos::compute
