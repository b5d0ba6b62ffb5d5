// A model's tokenizer and chat template, wherever its files have them. A Hugging Face folder has a tokenizer.json. In a
// GGUF file the whole of one may stand as tokenizer.huggingface.json; else what the keys tokenizer.ggml.* say makes one
// (text/gguf_vocabulary.h). text/chat.h says where templates are.
#pragma once

#include "base/result.h"
#include "infer/model_file.h"
#include "text/chat.h"
#include "text/tokenizer.h"

#include <optional>

namespace chaos::infer {

[[nodiscard]] Result<text::Tokenizer> tokenizer_of(const ModelFile& file);

// How it wants conversations written; none where the files do not say.
[[nodiscard]] Result<std::optional<text::ChatFormat>> chat_format_of(const ModelFile& file);

}  // namespace chaos::infer
