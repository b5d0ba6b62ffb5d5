// text/ turns text into token ids and back, exactly as Hugging Face's tokenizers do, and conversations into text, as
// models want them written. It depends on base/ only. Besides this file, a newcomer reads streaming_decoder.h (ids that
// come one by one), gguf_vocabulary.h (tokenizers inside of GGUF files), and chat.h and template.h (conversations).
//
// A text goes through five parts, one file each:
//
//   added tokens -> normalizer -> added tokens -> pre-tokenizer -> model (BPE) -> post-processor -> ids
//
// and ids go through the decoder. Supported `tokenizer.json` files:
//
//   model           BPE, byte-level (GPT-2, Llama 3, Qwen) or SentencePiece-style (Llama 2, Mistral: "▁" for spaces,
//                   byte fallback)
//   normalizers     NFC, NFD, NFKC, NFKD, Prepend, Replace
//   pre-tokenizers  Split, ByteLevel, Metaspace, Digits
//   post-processors TemplateProcessing, ByteLevel
//   decoders        ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace
//
// each alone or in a Sequence. Anything else is refused by name when the file is read. `truncation` and `padding` are
// ignored: how long a sequence may be is the caller's affair. Characters newer than the Unicode
// tables of PCRE2 and utf8proc count as unassigned, which may cut a text around them differently.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::text {

using TokenId = std::int32_t;

class Decoder;

// What encode() takes at once. A larger text must be cut by the caller, who knows where a document ends.
inline constexpr std::size_t max_text_bytes = std::size_t{1} << 30;

// Several threads may use one tokenizer at once.
class Tokenizer {
public:
    static Result<Tokenizer> read(const std::filesystem::path& path);
    // `name` stands for the file in errors.
    static Result<Tokenizer> parse(std::string_view json, const std::string& name);
    // The same of a file that was read already.
    static Result<Tokenizer> from_document(const nlohmann::json& document, const std::string& name);

    ~Tokenizer();
    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;

    // `text` is UTF-8 of at most max_text_bytes; what is not valid in it is taken for U+FFFD, the replacement
    // character. `add_special`: let the post-processor add its tokens (a leading begin-of-sequence, for most models).
    [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool add_special = true) const;
    // The result is valid UTF-8. Ids that no token has are passed over. `skip_special`: leave special tokens out.
    [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special = true) const;

    // What a token adds to a text in whose middle it stands: bytes that need not be whole characters. Empty for an id
    // that no token has.
    [[nodiscard]] std::string bytes_of(TokenId id) const;

    // For StreamingDecoder: how a token is spelled before it is decoded, null for one that is left out; and what
    // decodes.
    [[nodiscard]] const std::string* spelling_of(TokenId id, bool skip_special) const;
    [[nodiscard]] const Decoder& decoder() const;

    // One more than the largest id.
    [[nodiscard]] std::int64_t vocab_size() const;
    [[nodiscard]] std::optional<TokenId> id_of(std::string_view token) const;

private:
    struct Parts;
    explicit Tokenizer(std::unique_ptr<const Parts> parts);
    std::unique_ptr<const Parts> parts_;
};

}  // namespace chaos::text
