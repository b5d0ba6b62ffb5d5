// Cuts a normalized text into words, which the model then encodes one by one: Split, ByteLevel, Metaspace and Digits,
// each cutting what the one before it left.
#pragma once

#include "base/result.h"
#include "text/fields.h"
#include "text/metaspace.h"
#include "text/normalizer.h"
#include "text/pattern.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace chaos::text {

class PreTokenizer {
public:
    using Sink = std::function<void(std::string_view word)>;

    // Without a field, a text is one word.
    static Result<PreTokenizer> parse(const std::optional<Field>& field);

    // Hands every word, in order, to `sink`. A word is valid during the call only.
    void split(Piece piece, const Sink& sink) const;

private:
    // What becomes of the matches of a pattern, which stand between the words.
    enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
    struct Split {
        Pattern pattern;
        Behavior behavior;
        bool invert;
    };
    struct ByteLevel {
        bool add_prefix_space;
        std::optional<Pattern> pattern;
    };
    struct Digits {
        bool individual;
    };
    using Step = std::variant<Split, ByteLevel, Metaspace, Digits>;
    class Run;

    static Result<Behavior> parse_behavior(const Field& field);
    static Result<Step> parse_step(const Field& field);

    std::vector<Step> steps_;
};

}  // namespace chaos::text
