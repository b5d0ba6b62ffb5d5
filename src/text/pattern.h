// What Split and Replace look for: a literal string or a regular expression.
#pragma once

#include "base/result.h"
#include "text/fields.h"
#include "text/regex.h"

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace chaos::text {

class Pattern {
public:
    // {"String": "..."} or {"Regex": "..."}
    static Result<Pattern> parse(const Field& field);
    explicit Pattern(Regex regex) : what_(std::move(regex)) {}

    // Calls `visit(Range, bool is_match)` for every match and every stretch between matches, in order; together they
    // cover `text`. Matches may be empty, but none of those follows right after another match.
    template <class Visit>
    void for_each(std::string_view text, Visit&& visit) const;

private:
    explicit Pattern(std::string literal) : what_(std::move(literal)) {}
    [[nodiscard]] std::optional<Range> find(std::string_view text, std::size_t from) const;

    std::variant<std::string, Regex> what_;
};

// The bytes of the character at `offset`, or 1 at the end.
[[nodiscard]] std::size_t step_over(std::string_view text, std::size_t offset);

template <class Visit>
void Pattern::for_each(std::string_view text, Visit&& visit) const {
    // Nothing matches in an empty text, not even what matches the empty string.
    if (text.empty()) return;
    std::size_t covered = 0;
    std::size_t from = 0;
    bool any = false;
    while (from <= text.size()) {
        const std::optional<Range> match = find(text, from);
        if (!match) break;
        if (any && match->begin == match->end && match->end == covered) {
            from += step_over(text, from);
            continue;
        }
        if (covered != match->begin) visit(Range{covered, match->begin}, false);
        visit(*match, true);
        covered = from = match->end;
        any = true;
    }
    if (covered != text.size()) visit(Range{covered, text.size()}, false);
}

}  // namespace chaos::text
