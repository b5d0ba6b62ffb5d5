// Writes a model as a GGUF file, as llama.cpp's tools write it: same names, same order of rows, same metadata, the
// tokenizer inside.
#pragma once

#include "base/result.h"
#include "infer/model.h"
#include "infer/model_file.h"
#include "infer/pool.h"

#include <cstdint>
#include <filesystem>

namespace chaos::infer {

// `type` is F16, Q8_0 or Q4_0. No file of the model's weights is replaced. Matrices whose rows are no whole number of
// blocks are kept as F16, vectors as F32; what is of the type already is copied.
[[nodiscard]] Result<void> quantize(const ModelFile& file, const std::filesystem::path& target, StoredType type,
                                    Pool& pool, const Progress& progress);

// The metadata of a GGUF file of this model: the source's own, or made from its Config and its tokenizer.json.
[[nodiscard]] Result<GgufMetadata> gguf_metadata(const ModelFile& file, StoredType type);

}  // namespace chaos::infer
