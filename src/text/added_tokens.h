// Tokens that were added to a model after its training, special ones among them. They are found in the text before
// anything else cuts it: those that are not `normalized` in the text as given, the others after normalization.
#pragma once

#include "base/result.h"
#include "text/fields.h"
#include "text/normalizer.h"
#include "text/tokenizer.h"
#include "text/trie.h"
#include "text/vocabulary.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace chaos::text {

struct AddedToken {
    std::string content;
    std::string normal_form;   // how a normalized text spells it; the content itself where `normalized` is false
    bool single_word = false;  // only where no word character stands beside it
    bool lstrip = false;       // takes the white space before it along
    bool rstrip = false;
    bool normalized = false;
    bool special = false;
};

class AddedTokens {
public:
    // A stretch of a text: an added token, or what lies between two.
    struct Segment {
        std::string_view text;
        std::size_t offset;
        std::optional<TokenId> id;
    };
    enum class Stage { as_given, normalized };

    static Result<AddedTokens> parse(const std::optional<Field>& field, const Vocabulary& vocabulary,
                                     const Normalizer& normalizer);

    [[nodiscard]] std::vector<Segment> split(std::string_view text, Stage stage) const;

    // Null for an id that no added token has.
    [[nodiscard]] const AddedToken* token_of(TokenId id) const;
    [[nodiscard]] std::optional<TokenId> id_of(std::string_view content) const;
    // One more than the largest id.
    [[nodiscard]] TokenId end() const { return end_; }

private:
    std::map<TokenId, AddedToken> tokens_;
    std::unordered_map<std::string, TokenId> ids_;
    Trie as_given_;
    Trie normalized_;
    TokenId end_ = 0;
};

}  // namespace chaos::text
