// A stranger's tokenizer: a tokenizer.json, or the metadata of a GGUF file. What it makes of a text is decoded at once
// and id by id, to the same text.
#include "fuzz/seeds.h"
#include "text/gguf_vocabulary.h"
#include "text/streaming_decoder.h"
#include "text/utf8.h"

#include "base/assert.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <string>

namespace {

using namespace chaos;
using namespace chaos::text;

void use(const Result<Tokenizer>& tokenizer, std::string_view text) {
    if (!tokenizer) {
        CHAOS_ASSERT(tokenizer.error().message.starts_with("t"));
        return;
    }
    std::vector<TokenId> ids = tokenizer->encode(text);
    for (const TokenId id : ids) CHAOS_ASSERT(id >= 0 && id < tokenizer->vocab_size());
    for (TokenId id = -1; id < 300; ++id) ids.push_back(id);
    for (const bool skip_special : {true, false}) {
        StreamingDecoder streaming(*tokenizer, skip_special);
        std::string parts;
        for (const TokenId id : ids) {
            const std::string part = streaming.push(id);
            CHAOS_ASSERT(valid_utf8_bytes(part) == part.size());
            parts += part;
        }
        parts += streaming.finish();
        CHAOS_ASSERT(parts == tokenizer->decode(ids, skip_special));
    }
}

GgufVocabulary vocabulary_from(FuzzedDataProvider& input) {
    GgufVocabulary vocabulary;
    vocabulary.model = input.PickValueInArray({"gpt2", "llama", "bert"});
    vocabulary.pre = input.PickValueInArray({"", "llama-bpe", "qwen2", "smollm", "tekken", "x"});
    if (input.ConsumeBool()) vocabulary.bos_token_id = input.ConsumeIntegralInRange<TokenId>(-1, 40);
    if (input.ConsumeBool()) vocabulary.eos_token_id = input.ConsumeIntegralInRange<TokenId>(-1, 40);
    if (input.ConsumeBool()) vocabulary.unknown_token_id = input.ConsumeIntegralInRange<TokenId>(-1, 40);
    if (input.ConsumeBool()) vocabulary.add_bos_token = input.ConsumeBool();
    if (input.ConsumeBool()) vocabulary.add_eos_token = input.ConsumeBool();
    if (input.ConsumeBool()) vocabulary.add_space_prefix = input.ConsumeBool();
    const std::size_t tokens = input.ConsumeIntegralInRange<std::size_t>(0, 60);
    for (std::size_t id = 0; id < tokens; ++id) {
        vocabulary.tokens.push_back(input.ConsumeRandomLengthString(12));
        vocabulary.scores.push_back(input.ConsumeFloatingPoint<float>());
        vocabulary.token_types.push_back(input.ConsumeIntegralInRange<std::int32_t>(0, 7));
    }
    const std::size_t merges = input.ConsumeIntegralInRange<std::size_t>(0, 20);
    for (std::size_t rank = 0; rank < merges; ++rank) vocabulary.merges.push_back(input.ConsumeRandomLengthString(12));
    return vocabulary;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::string_view text = "ab the 12\n<s>\xC3\xA9 e\xCC\x81 \xF0\x9F\xA4\x96\xFF it's  \xE2\x96\x81x";
    FuzzedDataProvider input(data, size);
    if (input.ConsumeBool()) {
        use(make_tokenizer(vocabulary_from(input), "t"), text);
    } else {
        const std::string json = input.ConsumeRemainingBytesAsString();
        use(Tokenizer::parse(json, "t"), text);
    }
    return 0;
}

// FuzzedDataProvider takes its flags from the end: a zero there means a tokenizer.json.
std::vector<fuzz::Bytes> fuzz::seeds() {
    std::vector<Bytes> seeds;
    const auto add = [&](std::string_view text, std::uint8_t last) {
        seeds.emplace_back(text.begin(), text.end());
        seeds.back().push_back(last);
    };
    add(R"({"version": "1.0", "normalizer": {"type": "NFC"}, "added_tokens": [{"id": 7, "content": "<s>",
        "single_word": false, "lstrip": true, "rstrip": false, "normalized": false, "special": true}],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}|\\s+"},
        "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}},
        {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"ids": [7]}}}, "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "ignore_merges": true, "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ã": 4, "©": 5,
        "t": 6}, "merges": [["a", "b"]]}})",
        0);
    add(R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace",
        "pattern": {"String": " "}, "content": "▁"}]}, "decoder": {"type": "Sequence", "decoders": [{"type": "Replace",
        "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip",
        "content": " ", "start": 1, "stop": 0}]}, "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true,
        "byte_fallback": true, "vocab": {"<unk>": 0, "▁": 1, "a": 2, "<0xC3>": 3, "<0xA9>": 4, "▁a": 5},
        "merges": ["▁ a"]}})",
        0);
    add(R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}, "decoder":
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}, "model": {"vocab": {"▁": 0, "a": 1}, "merges": []}})",
        0);
    add("a\\b\\ab\\\xC4\xA0\\<s>\\a b\\", 1);
    return seeds;
}
