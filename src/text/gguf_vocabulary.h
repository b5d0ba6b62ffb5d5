// A tokenizer made of what a GGUF file says about it, which is less than a tokenizer.json does: the rest is known by
// the name of the kind. The ids are those of the tokenizer.json that the file was made from.
//
//   model "gpt2"   byte-level BPE with the merges of the file, cut as `pre` says: gpt-2 (also where the file says
//                  nothing or "default"), llama-bpe, qwen2, smollm, starcoder, refact, tekken and their other names
//                  (as llama.cpp has them)
//   model "llama"  SentencePiece-style BPE. Its merges follow from the scores: two neighbours merge where together they
//                  are a token, those with the highest score first; where all scores are the same, lower ids first
#pragma once

#include "base/result.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace chaos::text {

// Named after the keys of the metadata, tokenizer.ggml.NAME.
struct GgufVocabulary {
    std::string model;
    std::string pre;
    std::vector<std::string> tokens;        // by id
    std::vector<std::string> merges;        // of "gpt2": "a b"
    std::vector<float> scores;              // of "llama"
    std::vector<std::int32_t> token_types;  // empty: all are normal
    std::optional<TokenId> bos_token_id;
    std::optional<TokenId> eos_token_id;
    std::optional<TokenId> unknown_token_id;
    std::optional<bool> add_bos_token;
    std::optional<bool> add_eos_token;
    std::optional<bool> add_space_prefix;
};

// `name` stands for the file in errors.
[[nodiscard]] Result<Tokenizer> make_tokenizer(const GgufVocabulary& vocabulary, const std::string& name);

}  // namespace chaos::text
