// What every fuzz target has besides LLVMFuzzerTestOneInput: inputs to begin with, real ones, so that the fuzzer starts
// inside the grammar instead of guessing it. `fuzz_NAME --seeds FOLDER` writes them as files.
#pragma once

#include <cstdint>
#include <vector>

namespace chaos::fuzz {

using Bytes = std::vector<std::uint8_t>;

[[nodiscard]] std::vector<Bytes> seeds();

}  // namespace chaos::fuzz
