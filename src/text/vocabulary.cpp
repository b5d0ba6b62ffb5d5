#include "text/vocabulary.h"

#include <nlohmann/json.hpp>

namespace chaos::text {

Result<Vocabulary> Vocabulary::parse(const Field& field) {
    const nlohmann::json& object = field.json();
    if (!object.is_object()) return field.error("must be an object of tokens and ids");
    if (object.empty()) return field.error("has no tokens");
    if (object.size() > static_cast<std::size_t>(max_tokens)) {
        return field.error("has more than " + std::to_string(max_tokens) + " tokens");
    }
    Vocabulary vocabulary;
    vocabulary.ids_.reserve(object.size());
    for (const auto& [token, value] : object.items()) {
        const bool whole = value.is_number_unsigned();
        const std::uint64_t number = whole ? value.get<std::uint64_t>() : 0;
        if (!whole || number >= static_cast<std::uint64_t>(max_tokens)) {
            return field.error("gives '" + token + "' an id that is not a whole number from 0 to " +
                               std::to_string(max_tokens - 1));
        }
        const auto index = static_cast<std::size_t>(number);
        if (index >= vocabulary.tokens_.size()) vocabulary.tokens_.resize(index + 1, nullptr);
        const std::string*& place = vocabulary.tokens_[index];
        if (place != nullptr) {
            return field.error("gives '" + *place + "' and '" + token + "' the same id " + std::to_string(index));
        }
        place = &vocabulary.ids_.emplace(token, static_cast<TokenId>(index)).first->first;
    }
    return vocabulary;
}

std::optional<TokenId> Vocabulary::id_of(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
}

const std::string* Vocabulary::token_of(TokenId id) const {
    if (id < 0 || id >= end()) return nullptr;
    return tokens_[static_cast<std::size_t>(id)];
}

}  // namespace chaos::text
