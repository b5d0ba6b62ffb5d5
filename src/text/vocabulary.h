// The tokens a model was trained with and their ids.
#pragma once

#include "base/result.h"
#include "text/fields.h"
#include "text/tokenizer.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace chaos::text {

// No vocabulary in use comes near; it keeps a stray id from asking for gigabytes.
inline constexpr TokenId max_tokens = 1 << 22;

class Vocabulary {
public:
    // An object of tokens and ids. Ids may leave gaps, but no two tokens share one.
    static Result<Vocabulary> parse(const Field& field);

    Vocabulary(Vocabulary&&) = default;
    Vocabulary& operator=(Vocabulary&&) = default;

    [[nodiscard]] std::optional<TokenId> id_of(std::string_view token) const;
    // Null for an id that no token has.
    [[nodiscard]] const std::string* token_of(TokenId id) const;
    [[nodiscard]] std::size_t size() const { return ids_.size(); }
    // One more than the largest id.
    [[nodiscard]] TokenId end() const { return static_cast<TokenId>(tokens_.size()); }

private:
    Vocabulary() = default;
    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };

    std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
    // By id; they point to the keys of `ids_`, which stay where they are when the vocabulary moves.
    std::vector<const std::string*> tokens_;
};

}  // namespace chaos::text
