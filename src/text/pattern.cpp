#include "text/pattern.h"

#include "text/utf8.h"

namespace chaos::text {

Result<Pattern> Pattern::parse(const Field& field) {
    CHAOS_TRY(const std::optional<Field> literal, field.find("String"));
    if (literal) {
        CHAOS_TRY(std::string content, literal->text());
        if (!content.empty()) return Pattern(std::move(content));
        // The empty string matches between any two characters, which the regular expression knows how to do.
        CHAOS_TRY(Regex empty, Regex::compile(""));
        return Pattern(std::move(empty));
    }
    CHAOS_TRY(const std::optional<Field> expression, field.find("Regex"));
    if (!expression) return field.error("has neither 'String' nor 'Regex'");
    CHAOS_TRY(const std::string content, expression->text());
    Result<Regex> regex = Regex::compile(content);
    if (!regex) return expression->error(regex.error().message);
    return Pattern(std::move(regex).value());
}

std::optional<Range> Pattern::find(std::string_view text, std::size_t from) const {
    if (const auto* regex = std::get_if<Regex>(&what_)) return regex->find(text, from);
    const auto& literal = std::get<std::string>(what_);
    const std::size_t begin = text.find(literal, from);
    if (begin == std::string_view::npos) return std::nullopt;
    return Range{begin, begin + literal.size()};
}

std::size_t step_over(std::string_view text, std::size_t offset) {
    return offset < text.size() ? character_at(text, offset).bytes : 1;
}

}  // namespace chaos::text
