#include "text/post_processor.h"

#include "text/vocabulary.h"

#include <array>

namespace chaos::text {

Result<PostProcessor> PostProcessor::parse(const std::optional<Field>& field,
                                           const std::function<bool(TokenId)>& is_known) {
    PostProcessor result;
    if (!field) return result;
    CHAOS_TRY(const std::vector<Field> steps, steps_of(*field, "processors"));
    bool has_template = false;
    for (const Field& step : steps) {
        CHAOS_TRY(const Field type, step.at("type"));
        CHAOS_TRY(const std::string name, type.text());
        // ByteLevel only corrects the places of tokens in the text, which nobody asks us for.
        if (name == "ByteLevel") continue;
        if (name == "TemplateProcessing") {
            if (has_template) return type.error("is a second TemplateProcessing, which is not supported");
            has_template = true;
            CHAOS_CHECK(result.parse_template(step, is_known));
            continue;
        }
        constexpr std::array<std::string_view, 3> supported = {"TemplateProcessing", "ByteLevel", "Sequence"};
        return type.unsupported(name, supported);
    }
    return result;
}

Result<void> PostProcessor::parse_template(const Field& field, const std::function<bool(TokenId)>& is_known) {
    CHAOS_TRY(const Field single, field.at("single"));
    CHAOS_TRY(const Field tokens, field.at("special_tokens"));
    CHAOS_TRY(const std::vector<Field> items, single.items());
    parts_.clear();
    for (const Field& item : items) {
        CHAOS_TRY(const std::optional<Field> special, item.find("SpecialToken"));
        if (special) {
            CHAOS_TRY(const Field name, special->at("id"));
            CHAOS_CHECK(add_tokens(name, tokens, is_known));
            continue;
        }
        CHAOS_TRY(const Field sequence, item.at("Sequence"));
        CHAOS_TRY(const Field name_field, sequence.at("id"));
        CHAOS_TRY(const std::string name, name_field.text());
        if (name != "A") return name_field.error("must be 'A': a single text has no other sequence");
        parts_.push_back(the_text);
    }
    return {};
}

Result<void> PostProcessor::add_tokens(const Field& name_field, const Field& tokens,
                                       const std::function<bool(TokenId)>& is_known) {
    CHAOS_TRY(const std::string name, name_field.text());
    CHAOS_TRY(const std::optional<Field> token, tokens.find(name));
    if (!token) return name_field.error("is '" + name + "', which 'special_tokens' does not list");
    CHAOS_TRY(const Field ids_field, token->at("ids"));
    CHAOS_TRY(const std::vector<Field> ids, ids_field.items());
    for (const Field& id_field : ids) {
        CHAOS_TRY(const std::int64_t number, id_field.integer(0, max_tokens - 1));
        const auto id = static_cast<TokenId>(number);
        if (!is_known(id)) return id_field.error("is " + std::to_string(id) + ", the id of no token");
        parts_.push_back(id);
    }
    return {};
}

std::vector<TokenId> PostProcessor::process(std::vector<TokenId> ids, bool add_special) const {
    if (parts_.size() == 1 && parts_.front() == the_text) return ids;
    std::vector<TokenId> result;
    result.reserve(ids.size() + parts_.size());
    for (const Part& part : parts_) {
        if (part == the_text) {
            result.insert(result.end(), ids.begin(), ids.end());
        } else if (add_special) {
            result.push_back(*part);
        }
    }
    return result;
}

}  // namespace chaos::text
