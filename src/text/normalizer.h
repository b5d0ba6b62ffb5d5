// What is done to a text before it is cut: NFC, NFD, NFKC, NFKD, Prepend and Replace, one after the other.
#pragma once

#include "base/result.h"
#include "text/fields.h"
#include "text/pattern.h"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace chaos::text {

// A stretch of text on its way to the model. `at_start`: it begins where the text given to encode() began, which
// decides whether Metaspace's scheme "first" puts a space before it.
struct Piece {
    std::string_view text;
    bool at_start;
};

class Normalizer {
public:
    // Without a field, texts stay as they are.
    static Result<Normalizer> parse(const std::optional<Field>& field);

    // The result is a view of `piece` or of `buffer`.
    [[nodiscard]] Piece normalize(Piece piece, std::string& buffer) const;

private:
    enum class Form { nfc, nfd, nfkc, nfkd };
    struct Prepend {
        std::string content;
    };
    struct Replace {
        Pattern pattern;
        std::string content;
    };
    using Step = std::variant<Form, Prepend, Replace>;

    static Result<Step> parse_step(const Field& field);
    // Each appends to an empty `result` and says whether that still begins at the start.
    static bool apply(Form form, Piece piece, std::string& result);
    static bool apply(const Prepend& prepend, Piece piece, std::string& result);
    static bool apply(const Replace& replace, Piece piece, std::string& result);

    std::vector<Step> steps_;
};

}  // namespace chaos::text
