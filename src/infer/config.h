// What a model looks like, from the config.json of a Hugging Face folder or from the metadata of a GGUF file. Kinds:
// Llama 2 and 3, Mistral, Qwen2, Qwen3, which differ in details that stand here one by one. What else a file asks for
// (other kinds, activations, RoPE scalings, experts, quantized safetensors) is refused by name.
#pragma once

#include "base/result.h"
#include "infer/gguf.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::infer {

// Pair i of a head (values i and i + head_width / 2) turns by
//   position x theta^(-2i / head_width) / linear_factor / divisors[i].
struct Rope {
    double theta = 10000.0;
    double linear_factor = 1.0;
    std::vector<float> divisors;  // one for each pair (kind "llama3"), or none
};

struct Config {
    std::string kind;  // llama, mistral, qwen2 or qwen3
    std::int64_t vocab = 0;
    std::int64_t width = 0;
    std::int64_t layers = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_width = 0;
    std::int64_t ffn = 0;
    // Tokens that the model was made for, but no more than a million or its sliding window: within that, looking back a
    // window and looking back to the beginning are the same.
    std::int64_t max_context = 0;
    double norm_epsilon = 1e-6;
    Rope rope;
    bool tied_head = false;    // the head is the embedding
    bool head_norm = false;    // queries and keys are normalized head by head
    bool qkv_bias = false;     // on queries, keys and values
    bool output_bias = false;  // on the attention's output
    bool ffn_bias = false;     // on gate, up and down
    std::optional<std::int64_t> bos_token;
    std::vector<std::int64_t> eos_tokens;  // each of them ends a text

    [[nodiscard]] std::int64_t query_width() const { return heads * head_width; }
    [[nodiscard]] std::int64_t kv_width() const { return kv_heads * head_width; }
};

// FOLDER/config.json; end tokens also from generation_config.json, where there is one.
[[nodiscard]] Result<Config> read_config(const std::filesystem::path& folder);
// Those of a GGUF file are the ones that its keys name, and control tokens that end a turn.
[[nodiscard]] Result<Config> read_config(const Gguf& file);

// GGUF has keys for three end tokens at most. In files that chaos quantize writes, all of them stand here.
inline constexpr std::string_view end_tokens_key = "tokenizer.chaos.eos_token_ids";
// Whether a control token with this text ends a turn of a conversation, whatever else a file says of it.
[[nodiscard]] bool ends_turn(std::string_view text);

// The angle by which each pair of a head turns from one position to the next.
[[nodiscard]] std::vector<float> angle_steps(const Config& config);

// What both check at the end: that the numbers fit each other. `name` stands for the file in errors.
[[nodiscard]] Result<void> check_config(const Config& config, const std::string& name);

}  // namespace chaos::infer
