// Hugging Face folders of Llama models: config.json, safetensors (one file, or several with an index), tokenizer.json.
// Parameters carry the same names here and there, so weights move without translation.
#pragma once

#include "base/result.h"
#include "run/run.h"
#include "state/arena.h"
#include "state/manifest.h"

#include <filesystem>
#include <string>
#include <vector>

namespace chaos::state {

// The architecture a folder's config.json describes. What our llama does not have (biases, other activations, other
// RoPE scalings, other model types) is refused by name.
[[nodiscard]] Result<run::Llama> read_llama_config(const std::filesystem::path& folder);

// config.json for a model of this shape, with every field resolved.
[[nodiscard]] std::string llama_config_json(const run::Llama& llama);

// A tokenizer.json in which every byte is a token and its id: what a model trained on bytes uses.
[[nodiscard]] std::string byte_tokenizer_json();

// Fills the parameters from the folder's safetensors (F32, F16 or BF16). Every parameter must be there with the right
// shape; tensors the model does not have are refused.
[[nodiscard]] Result<void> read_weights(const std::filesystem::path& folder, const Manifest& manifest, Arena& arena);

// Writes the parameters of a checkpoint (its hash is checked) as FOLDER/model.safetensors.
[[nodiscard]] Result<void> write_weights(const std::filesystem::path& checkpoint, const std::filesystem::path& folder);

}  // namespace chaos::state
