// A model's tokenizer, wherever its files have it: tokenizer.json in a Hugging Face folder or beside a GGUF file, or
// the metadata tokenizer.huggingface.json, which holds the whole of such a file.
#pragma once

#include "base/result.h"
#include "infer/model_file.h"
#include "text/tokenizer.h"

namespace chaos::infer {

[[nodiscard]] Result<text::Tokenizer> tokenizer_of(const ModelFile& file);

}  // namespace chaos::infer
