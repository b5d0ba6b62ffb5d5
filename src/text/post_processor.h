// What encode() puts around the ids of a text, like the token that begins a sequence.
#pragma once

#include "base/result.h"
#include "text/fields.h"
#include "text/tokenizer.h"

#include <functional>
#include <optional>
#include <vector>

namespace chaos::text {

class PostProcessor {
public:
    // Without a field, nothing is added. `is_known` says whether a token has an id.
    static Result<PostProcessor> parse(const std::optional<Field>& field, const std::function<bool(TokenId)>& is_known);

    [[nodiscard]] std::vector<TokenId> process(std::vector<TokenId> ids, bool add_special) const;

private:
    // The text itself, or a token that is added.
    using Part = std::optional<TokenId>;
    static constexpr Part the_text = std::nullopt;

    Result<void> parse_template(const Field& field, const std::function<bool(TokenId)>& is_known);
    Result<void> add_tokens(const Field& name_field, const Field& tokens, const std::function<bool(TokenId)>& is_known);

    std::vector<Part> parts_ = {the_text};
};

}  // namespace chaos::text
