#include "synthetic_model.h"

#include "base/assert.h"
#include "base/half.h"
#include "infer/gguf.h"
#include "infer/model_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace chaos::bench {
namespace {

using infer::GgufValue;
using infer::StoredType;

infer::Config config_of(const SyntheticModel& model) {
    infer::Config config;
    config.kind = "llama";
    config.width = model.width;
    config.layers = model.layers;
    config.heads = model.heads;
    config.kv_heads = model.kv_heads;
    config.head_width = model.width / model.heads;
    config.ffn = model.ffn;
    config.vocab = model.vocabulary;
    config.max_context = model.context;
    return config;
}

infer::GgufMetadata metadata_of(const infer::Config& config) {
    const auto whole = [](std::int64_t value) { return GgufValue::of_u32(static_cast<std::uint32_t>(value)); };
    return {{"general.architecture", GgufValue::of_text("llama")},
            {"llama.block_count", whole(config.layers)},
            {"llama.context_length", whole(config.max_context)},
            {"llama.embedding_length", whole(config.width)},
            {"llama.feed_forward_length", whole(config.ffn)},
            {"llama.attention.head_count", whole(config.heads)},
            {"llama.attention.head_count_kv", whole(config.kv_heads)},
            {"llama.vocab_size", whole(config.vocab)},
            {"llama.attention.layer_norm_rms_epsilon", GgufValue::of_f32(1e-5)},
            {"llama.rope.freq_base", GgufValue::of_f32(10000.0)}};
}

// Texts in the order of their length: character i, then any text followed by any character.
void add_tokenizer(std::int64_t vocabulary, infer::GgufMetadata& metadata) {
    std::vector<std::string> tokens;
    for (char character = '!'; character <= '~'; ++character) tokens.emplace_back(1, character);
    tokens.emplace_back("\xC4\xA0");  // how byte-level tokenizers write a space
    const std::size_t characters = tokens.size();
    std::vector<std::string> merges;
    while (tokens.size() < static_cast<std::size_t>(vocabulary)) {
        const std::string& left = tokens[merges.size() / characters];
        const std::string& right = tokens[merges.size() % characters];
        merges.push_back(left + " " + right);
        tokens.push_back(left + right);
    }
    metadata["tokenizer.ggml.model"] = GgufValue::of_text("gpt2");
    metadata["tokenizer.ggml.pre"] = GgufValue::of_text("gpt-2");
    metadata["tokenizer.ggml.tokens"] = GgufValue::of_texts(std::move(tokens));
    metadata["tokenizer.ggml.merges"] = GgufValue::of_texts(std::move(merges));
}

// Random values of one magnitude, or blocks of them, whose products neither vanish nor explode on their way through the
// layers.
Result<void> write_matrix(const infer::TensorShape& shape, StoredType type, const Sink& sink) {
    CHAOS_ASSERT(type == StoredType::q4_0 || type == StoredType::q8_0 || type == StoredType::f16);
    const double magnitude = 0.5 / std::sqrt(static_cast<double>(shape.columns));
    const double spread = type == StoredType::q4_0 ? 4.6 : 74.0;
    const std::uint16_t scale = float_to_f16(static_cast<float>(magnitude / spread));
    const std::uint64_t block = infer::row_bytes(type, 32);
    // Four F16 with random signs and fractions.
    constexpr std::uint64_t four = 0x0001'0001'0001'0001;
    const std::uint64_t exponents = (static_cast<std::uint64_t>(15 + std::ilogb(magnitude)) << 10) * four;
    std::mt19937_64 random(shape.rows * shape.columns);
    std::vector<std::byte> rows(infer::row_bytes(type, shape.columns) * std::min<std::uint64_t>(shape.rows, 64));
    for (std::uint64_t row = 0; row < shape.rows; row += 64) {
        rows.resize(infer::row_bytes(type, shape.columns) * std::min<std::uint64_t>(shape.rows - row, 64));
        for (std::size_t at = 0; at + sizeof(std::uint64_t) <= rows.size(); at += sizeof(std::uint64_t)) {
            std::uint64_t bits = random();
            if (type == StoredType::f16) bits = (bits & 0x83ff * four) | exponents;
            std::memcpy(rows.data() + at, &bits, sizeof bits);
        }
        if (type != StoredType::f16)
            for (std::size_t at = 0; at < rows.size(); at += block) std::memcpy(rows.data() + at, &scale, sizeof scale);
        CHAOS_CHECK(sink(rows));
    }
    return {};
}

Result<void> write_ones(const infer::TensorShape& shape, const Sink& sink) {
    const std::vector<float> ones(shape.columns, 1.0F);
    return sink(std::as_bytes(std::span(ones)));
}

}  // namespace

Result<void> write_synthetic_model(const std::filesystem::path& path, const SyntheticModel& model) {
    const infer::Config config = config_of(model);
    std::vector<infer::GgufOutput> tensors;
    for (const infer::TensorShape& shape : infer::tensors_of(config)) {
        if (shape.vector)
            tensors.push_back({shape.gguf_name, StoredType::f32, {shape.columns}, [shape](const Sink& sink) {
                                   return write_ones(shape, sink);
                               }});
        else
            tensors.push_back(
                {shape.gguf_name,
                 model.type,
                 {shape.columns, shape.rows},
                 [shape, type = model.type](const Sink& sink) { return write_matrix(shape, type, sink); }});
    }
    infer::GgufMetadata metadata = metadata_of(config);
    if (model.tokenizer) add_tokenizer(model.vocabulary, metadata);
    return infer::write_gguf(path, metadata, tensors);
}

}  // namespace chaos::bench
