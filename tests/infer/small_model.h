// GGUF files of models so small that they are written in a moment, for tests that change one thing in them.
#pragma once

#include "infer/config.h"
#include "infer/gguf.h"
#include "infer/model_file.h"

#include <string>
#include <vector>

namespace chaos::infer::test {

// Of one layer, with a tied head, 2 narrow heads that share one KV head, a narrow FFN and 8 tokens.
inline Config small_config(const std::string& kind, std::int64_t width) {
    Config config;
    config.kind = kind;
    config.vocab = 8;
    config.width = width;
    config.layers = 1;
    config.heads = 2;
    config.kv_heads = 1;
    config.head_width = 2;
    config.ffn = 4;
    config.max_context = 16;
    config.tied_head = true;
    config.head_norm = kind == "qwen3";
    config.qkv_bias = kind == "qwen2";
    return config;
}

// One that can be divided: heads and FFN columns by halves and quarters.
inline Config divisible_config() {
    Config config = small_config("llama", 64);
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = 2;
    config.head_width = 32;
    config.ffn = 512;
    config.max_context = 64;
    return config;
}

inline GgufMetadata small_metadata(const Config& config, bool byte_level) {
    const auto whole = [](std::int64_t value) { return GgufValue::of_u32(static_cast<std::uint32_t>(value)); };
    const std::string kind = config.kind + ".";
    GgufMetadata metadata = {
        {"general.architecture", GgufValue::of_text(config.kind)},
        {kind + "block_count", whole(config.layers)},
        {kind + "context_length", whole(config.max_context)},
        {kind + "embedding_length", whole(config.width)},
        {kind + "feed_forward_length", whole(config.ffn)},
        {kind + "attention.head_count", whole(config.heads)},
        {kind + "attention.head_count_kv", whole(config.kv_heads)},
        {kind + "attention.key_length", whole(config.head_width)},
        {kind + "attention.layer_norm_rms_epsilon", GgufValue::of_f32(1e-5)},
        {kind + "rope.scaling.type", GgufValue::of_text("linear")},
        {kind + "rope.scaling.factor", GgufValue::of_f32(2.0)},
        {"tokenizer.ggml.model", GgufValue::of_text(byte_level ? "gpt2" : "llama")},
        {"tokenizer.ggml.tokens", GgufValue::of_texts({"<s>", "</s>", "a", "b", "ab", "1", "<0x41>", "\xC4\xA0"})},
        {"tokenizer.ggml.token_type", GgufValue::of_i32s({3, 3, 1, 1, 1, 1, 6, 1})},
        {"tokenizer.ggml.bos_token_id", whole(0)},
        {"tokenizer.ggml.eos_token_id", whole(1)},
        {"tokenizer.chat_template", GgufValue::of_text("{{ bos_token }}{{ messages[0].content }}")},
    };
    if (byte_level)
        metadata["tokenizer.ggml.merges"] = GgufValue::of_texts({"a b"});
    else
        metadata["tokenizer.ggml.scores"] = GgufValue::of_f32s({0, 0, -1, -2, -3, -4, 0, -5});
    return metadata;
}

// Its tensors: matrices of the type, F16 where its blocks do not fit, vectors of floats, all full of the same byte.
inline std::vector<GgufOutput> small_tensors(const Config& config, StoredType type) {
    std::vector<GgufOutput> tensors;
    for (const TensorShape& shape : tensors_of(config)) {
        const StoredType fitting = shape.columns % blocks_of(type).columns == 0 ? type : StoredType::f16;
        const StoredType stored = shape.vector ? StoredType::f32 : fitting;
        const auto extents = shape.vector ? std::vector{shape.columns} : std::vector{shape.columns, shape.rows};
        const std::vector<std::byte> bytes(row_bytes(stored, shape.columns * shape.rows), std::byte{1});
        tensors.push_back({shape.gguf_name, stored, extents, [bytes](const Sink& sink) { return sink(bytes); }});
    }
    return tensors;
}

// What gguf-split adds to part `part` (the first is 0) of several.
inline void add_split(GgufMetadata& metadata, std::int64_t part, std::int64_t parts, std::size_t tensors) {
    metadata["split.no"] = {GgufType::u16, {}, part};
    metadata["split.count"] = {GgufType::u16, {}, parts};
    metadata["split.tensors.count"] = {GgufType::i32, {}, static_cast<std::int64_t>(tensors)};
}

}  // namespace chaos::infer::test
