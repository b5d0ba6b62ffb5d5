// Limits keep every product of sizes that the rest of the program forms within 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace chaos::run {

inline constexpr std::int64_t max_width = 65536;
inline constexpr std::int64_t max_ffn = 1 << 20;
inline constexpr std::int64_t max_layers = 1024;
inline constexpr std::int64_t max_heads = 4096;
inline constexpr std::int64_t max_head_width = 4096;
inline constexpr std::int64_t max_vocab = 1 << 22;
inline constexpr std::int64_t max_context = 1 << 20;
inline constexpr std::int64_t max_samples = 1'000'000'000;
inline constexpr std::int64_t max_sample_elements = 1 << 24;
inline constexpr std::int64_t max_steps = 1'000'000'000'000;
inline constexpr std::int64_t max_batch = 1 << 20;
inline constexpr std::int64_t max_threads = 1024;
inline constexpr std::int64_t max_kept_checkpoints = 1'000'000;
inline constexpr std::size_t max_hidden_layers = 64;
inline constexpr std::size_t max_dimensions = 4;
inline constexpr std::size_t max_files = 65536;

}  // namespace chaos::run
