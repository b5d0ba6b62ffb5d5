#include "text/template_strings.h"

#include "text/characters.h"
#include "text/utf8.h"

#include <utf8proc.h>
#include <algorithm>
#include <utility>

namespace chaos::text {
namespace {

char32_t upper_of(char32_t code) {
    return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}

char32_t lower_of(char32_t code) {
    return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

char32_t title_of(char32_t code) {
    return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code)));
}

utf8proc_category_t category_of(char32_t code) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

constexpr char32_t sharp_s = 0xDF;

template <class Map>
std::string mapped(std::string_view text, Map&& map, bool second_is_upper = false) {
    std::string result;
    result.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const Character character = character_at(text, at);
        const char32_t code = map(character.code);
        // The one letter in common use whose upper case is two.
        if (character.code == sharp_s && code != sharp_s) {
            result += second_is_upper ? "SS" : "Ss";
        } else {
            append_character(result, code);
        }
        at += character.bytes;
    }
    return result;
}

// What repr() writes as it is.
bool is_printable(char32_t code) {
    switch (category_of(code)) {
        case UTF8PROC_CATEGORY_CN:
        case UTF8PROC_CATEGORY_CC:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_CS:
        case UTF8PROC_CATEGORY_CO:
        case UTF8PROC_CATEGORY_ZL:
        case UTF8PROC_CATEGORY_ZP:
            return false;
        case UTF8PROC_CATEGORY_ZS:
            return code == U' ';
        default:
            return true;
    }
}

bool is_cased(char32_t code) {
    const utf8proc_category_t category = category_of(code);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT ||
           upper_of(code) != code || lower_of(code) != code;
}

// Where str.splitlines() ends a line, besides "\r\n".
bool ends_line(char32_t code) {
    return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
           code == 0x2029;
}

template <class Drops>
std::string_view strip_where(std::string_view text, Side side, Drops&& drops) {
    while (side != Side::right && !text.empty()) {
        const Character first = character_at(text, 0);
        if (!drops(first.code)) break;
        text.remove_prefix(first.bytes);
    }
    while (side != Side::left && !text.empty()) {
        const Character last = character_before(text, text.size());
        if (!drops(last.code)) break;
        text.remove_suffix(last.bytes);
    }
    return text;
}

void append_hex(std::string& out, char32_t code, int digits) {
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += "0123456789abcdef"[code >> shift & 15U];
}

}  // namespace

bool is_python_space(char32_t code) {
    return is_white_space(code) || (code >= 0x1C && code <= 0x1F);
}

std::size_t characters_in(std::string_view text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80; }));
}

std::size_t offset_of_character(std::string_view text, std::size_t number) {
    std::size_t at = 0;
    for (; number > 0 && at < text.size(); --number) at += character_at(text, at).bytes;
    return at;
}

std::string_view strip(std::string_view text, Side side) {
    return strip_where(text, side, is_python_space);
}

std::string_view strip(std::string_view text, Side side, std::string_view characters) {
    return strip_where(text, side, [&](char32_t code) {
        for (std::size_t at = 0; at < characters.size();) {
            const Character character = character_at(characters, at);
            if (character.code == code) return true;
            at += character.bytes;
        }
        return false;
    });
}

std::vector<std::string_view> split(std::string_view text, std::size_t max_splits) {
    std::vector<std::string_view> parts;
    text = strip(text, Side::left);
    while (!text.empty()) {
        if (parts.size() == max_splits) {
            parts.push_back(text);
            break;
        }
        std::size_t end = 0;
        while (end < text.size() && !is_python_space(character_at(text, end).code)) {
            end += character_at(text, end).bytes;
        }
        parts.push_back(text.substr(0, end));
        text = strip(text.substr(end), Side::left);
    }
    return parts;
}

std::vector<std::string_view> split_from_end(std::string_view text, std::size_t max_splits) {
    std::vector<std::string_view> parts;
    text = strip(text, Side::right);
    while (!text.empty()) {
        if (parts.size() == max_splits) {
            parts.push_back(text);
            break;
        }
        std::size_t begin = text.size();
        while (begin > 0 && !is_python_space(character_before(text, begin).code)) {
            begin -= character_before(text, begin).bytes;
        }
        parts.push_back(text.substr(begin));
        text = strip(text.substr(0, begin), Side::right);
    }
    std::ranges::reverse(parts);
    return parts;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator, std::size_t max_splits) {
    std::vector<std::string_view> parts;
    while (parts.size() < max_splits) {
        const std::size_t end = text.find(separator);
        if (end == std::string_view::npos) break;
        parts.push_back(text.substr(0, end));
        text.remove_prefix(end + separator.size());
    }
    parts.push_back(text);
    return parts;
}

std::vector<std::string_view> split_from_end(std::string_view text, std::string_view separator,
                                             std::size_t max_splits) {
    std::vector<std::string_view> parts;
    while (parts.size() < max_splits) {
        const std::size_t at = text.rfind(separator);
        if (at == std::string_view::npos) break;
        parts.push_back(text.substr(at + separator.size()));
        text = text.substr(0, at);
    }
    parts.push_back(text);
    std::ranges::reverse(parts);
    return parts;
}

std::vector<std::string_view> split_lines(std::string_view text) {
    std::vector<std::string_view> lines;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
        const Character character = character_at(text, at);
        if (!ends_line(character.code)) {
            at += character.bytes;
            continue;
        }
        lines.push_back(text.substr(begin, at - begin));
        at += text.substr(at).starts_with("\r\n") ? 2 : character.bytes;
        begin = at;
    }
    if (begin < text.size()) lines.push_back(text.substr(begin));
    return lines;
}

std::size_t occurrences(std::string_view text, std::string_view part) {
    if (part.empty()) return characters_in(text) + 1;
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
        ++count;
    return count;
}

std::string replace(std::string_view text, std::string_view old, std::string_view with, std::size_t max_times) {
    std::string result;
    std::size_t at = 0;
    for (std::size_t times = 0; times < max_times; ++times) {
        const std::size_t found = old.empty() ? at : text.find(old, at);
        if (found == std::string_view::npos) break;
        result.append(text.substr(at, found - at)).append(with);
        at = found + old.size();
        if (!old.empty()) continue;
        if (at == text.size()) break;
        const std::size_t bytes = character_at(text, at).bytes;
        result.append(text.substr(at, bytes));
        at += bytes;
    }
    return result.append(text.substr(at));
}

std::string upper(std::string_view text) {
    return mapped(text, upper_of, true);
}

std::string lower(std::string_view text) {
    return mapped(text, lower_of);
}

std::string capitalize(std::string_view text) {
    bool is_first = true;
    return mapped(text,
                  [&](char32_t code) { return std::exchange(is_first, false) ? title_of(code) : lower_of(code); });
}

std::string title(std::string_view text) {
    bool follows_letter = false;
    return mapped(text, [&](char32_t code) {
        const bool begins = !follows_letter;
        follows_letter = is_cased(code);
        return begins ? title_of(code) : lower_of(code);
    });
}

std::string title_words(std::string_view text) {
    bool begins = true;
    return mapped(
        text,
        [&](char32_t code) {
            const bool is_border =
                code == U'-' || code == U'(' || code == U'{' || code == U'[' || code == U'<' || is_python_space(code);
            return std::exchange(begins, is_border) ? upper_of(code) : lower_of(code);
        },
        true);
}

bool is_letter(char32_t code) {
    const utf8proc_category_t category = category_of(code);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(char32_t code) {
    return category_of(code) == UTF8PROC_CATEGORY_ND;
}

void append_python_literal(std::string& out, std::string_view text) {
    const bool has_single = text.find('\'') != std::string_view::npos;
    const bool has_double = text.find('"') != std::string_view::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    out += quote;
    for (std::size_t at = 0; at < text.size();) {
        const Character character = character_at(text, at);
        const char32_t code = character.code;
        if (code == U'\n') {
            out += "\\n";
        } else if (code == U'\r') {
            out += "\\r";
        } else if (code == U'\t') {
            out += "\\t";
        } else if (code == U'\\' || code == static_cast<char32_t>(quote)) {
            out += '\\';
            out += static_cast<char>(code);
        } else if (is_printable(code)) {
            out += text.substr(at, character.bytes);
        } else {
            const int digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
            out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
            append_hex(out, code, digits);
        }
        at += character.bytes;
    }
    out += quote;
}

std::string escape_html(std::string_view text) {
    std::string result;
    for (const char c : text) {
        switch (c) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '\'':
                result += "&#39;";
                break;
            case '"':
                result += "&#34;";
                break;
            default:
                result += c;
        }
    }
    return result;
}

}  // namespace chaos::text
