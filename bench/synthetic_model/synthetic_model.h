// A Llama with random weights, as a GGUF file: as large as one likes, for who measures time and memory and does not
// care what it says.
#pragma once

#include "base/result.h"
#include "infer/blocks.h"

#include <cstdint>
#include <filesystem>

namespace chaos::bench {

struct SyntheticModel {
    std::int64_t width = 2048;
    std::int64_t layers = 16;
    std::int64_t heads = 32;
    std::int64_t kv_heads = 8;
    std::int64_t ffn = 8192;
    std::int64_t vocabulary = 32000;
    std::int64_t context = 4096;
    infer::StoredType type = infer::StoredType::q4_0;  // or q8_0 or f16
    // Byte-level BPE with as many tokens as the vocabulary: texts of printable characters, each token but the first
    // ones merged of two others.
    bool tokenizer = false;
};

// The same bytes for the same model.
[[nodiscard]] Result<void> write_synthetic_model(const std::filesystem::path& path, const SyntheticModel& model);

}  // namespace chaos::bench
