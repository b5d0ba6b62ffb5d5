// A model's tokenizer, wherever its files have it. A Hugging Face folder has a tokenizer.json. In a GGUF file the whole
// of one may stand as tokenizer.huggingface.json; else what the keys tokenizer.ggml.* say makes one
// (text/gguf_vocabulary.h).
#pragma once

#include "base/result.h"
#include "infer/model_file.h"
#include "text/tokenizer.h"

namespace chaos::infer {

[[nodiscard]] Result<text::Tokenizer> tokenizer_of(const ModelFile& file);

}  // namespace chaos::infer
