// Turns tokens back into text: ByteLevel, Replace, ByteFallback, Fuse, Strip and Metaspace, each changing the list of
// strings that the one before it left. What remains is joined.
#pragma once

#include "base/result.h"
#include "text/fields.h"
#include "text/metaspace.h"
#include "text/pattern.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace chaos::text {

class Decoder {
public:
    // Without a field, tokens are joined with spaces.
    static Result<Decoder> parse(const std::optional<Field>& field);

    [[nodiscard]] std::string decode(std::vector<std::string> tokens) const;
    // What a token adds to a text in whose middle it stands: bytes that need not be whole characters.
    [[nodiscard]] std::string bytes_of(std::string token) const;

private:
    friend class DecoderStream;
    using Tokens = std::vector<std::string>;
    struct ByteLevel {};
    struct Replace {
        Pattern pattern;
        std::string content;
    };
    struct ByteFallback {};
    struct Fuse {};
    struct Strip {
        std::string content;  // one character
        std::size_t start;    // at most so many of them are taken from the start of every token
        std::size_t stop;     // and so many from its end
    };
    using Step = std::variant<ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace>;

    static Result<Step> parse_step(const Field& field);
    // The bytes that a token of a byte-level vocabulary stands for.
    static void append_bytes(std::string& bytes, const std::string& token);
    // Whether a token stands for one byte, like "<0x0A>".
    static bool is_byte(const std::string& token);
    static Tokens apply(const ByteLevel& step, const Tokens& tokens);
    static Tokens apply(const Replace& step, Tokens tokens);
    static Tokens apply(const ByteFallback& step, Tokens tokens);
    static Tokens apply(const Fuse& step, const Tokens& tokens);
    static Tokens apply(const Strip& step, Tokens tokens);
    static Tokens apply(const Metaspace& step, Tokens tokens);

    std::vector<Step> steps_;
    std::string separator_ = " ";
};

}  // namespace chaos::text
