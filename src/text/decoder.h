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

private:
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
