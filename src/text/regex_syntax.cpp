#include "text/regex_syntax.h"

#include <cctype>

namespace chaos::text {
namespace {

constexpr std::string_view word_members = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view hexadecimal_members = "0-9A-Fa-f";

Error not_supported(std::string_view what) {
    return Error{"uses " + std::string(what) + ", which is not supported"};
}

bool is_one_of(char letter, std::string_view letters) {
    return letters.find(letter) != std::string_view::npos;
}

class Translator {
public:
    explicit Translator(std::string_view pattern) : pattern_(pattern) {}

    Result<std::string> run() {
        while (at_ < pattern_.size()) CHAOS_CHECK(step());
        return std::move(output_);
    }

private:
    [[nodiscard]] char peek(std::size_t ahead = 0) const {
        return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
    }

    void copy(std::size_t bytes) {
        output_ += pattern_.substr(at_, bytes);
        at_ += bytes;
    }

    void replace(std::size_t bytes, std::string_view by) {
        output_ += by;
        at_ += bytes;
    }

    Result<void> step() {
        const char next = peek();
        if (next == '\\') return escape();
        if (class_depth_ > 0) return class_member();
        if (next == '[') {
            class_depth_ = 1;
            open_class();
            return {};
        }
        if (next == '(') return group();
        if (next == '{') return interval();
        copy(1);
        return {};
    }

    // A "]" that comes first in a class is a member of it.
    void open_class() {
        copy(1);
        if (peek() == '^') copy(1);
        if (peek() == ']') replace(1, R"(\])");
    }

    Result<void> class_member() {
        if (peek() == '[') {
            if (peek(1) == ':') return not_supported("a POSIX class like [:alpha:]");
            if (peek(1) == '^') return not_supported("a negated class inside a class");
            ++class_depth_;
            replace(1, "");
        } else if (peek() == ']') {
            --class_depth_;
            if (class_depth_ == 0) {
                copy(1);
            } else {
                replace(1, "");
            }
        } else if (peek() == '&' && peek(1) == '&') {
            return not_supported("an intersection of classes (&&)");
        } else {
            copy(1);
        }
        return {};
    }

    Result<void> escape() {
        const bool in_class = class_depth_ > 0;
        const char letter = peek(1);
        const auto members = [&](std::string_view list, bool negated) -> Result<void> {
            if (in_class && negated) return not_supported(std::string("\\") + letter + " inside a class");
            replace(2, in_class ? std::string(list) : (negated ? "[^" : "[") + std::string(list) + "]");
            return {};
        };
        switch (letter) {
            case 's':
                replace(2, R"(\p{White_Space})");
                return {};
            case 'S':
                replace(2, R"(\P{White_Space})");
                return {};
            case 'w':
            case 'W':
                return members(word_members, letter == 'W');
            case 'h':
            case 'H':
                return members(hexadecimal_members, letter == 'H');
            case 'v':
                replace(2, R"(\x0b)");
                return {};
            case 'b':
            case 'B':
                if (in_class) break;
                boundary(letter == 'b');
                return {};
            case 'u':
                return code_point();
            case 'p':
            case 'P':
            case 'x':
                return copy_with_braces();
            default:
                break;
        }
        const auto byte = static_cast<unsigned char>(letter);
        const bool means_the_same =
            is_one_of(letter, in_class ? "dDtnrfaeb" : "dDtnrfaeAzZk") || (byte != 0 && std::isalnum(byte) == 0);
        const bool refers_back = !in_class && letter >= '1' && letter <= '9';
        if (!means_the_same && !refers_back) return not_supported(std::string("\\") + letter);
        copy(2);
        return {};
    }

    void boundary(bool positive) {
        const std::string word = "[" + std::string(word_members) + "]";
        const std::string_view same = positive ? "!" : "=";
        const std::string_view other = positive ? "=" : "!";
        output_ += "(?:(?<=" + word + ")(?" + std::string(same) + word + ")|(?<!" + word + ")(?" + std::string(other) +
                   word + "))";
        at_ += 2;
    }

    Result<void> code_point() {
        for (std::size_t digit = 2; digit < 6; ++digit) {
            if (std::isxdigit(static_cast<unsigned char>(peek(digit))) == 0) return not_supported("\\u");
        }
        const std::string digits(pattern_.substr(at_ + 2, 4));
        replace(6, "\\x{" + digits + "}");
        return {};
    }

    // \p{...} and \x{...} are copied whole, so that their braces are not taken for an interval.
    Result<void> copy_with_braces() {
        if (peek(2) != '{') {
            copy(2);
            return {};
        }
        const std::size_t end = pattern_.find('}', at_);
        if (end == std::string_view::npos) return not_supported("'{' without '}'");
        copy(end + 1 - at_);
        return {};
    }

    Result<void> group() {
        if (peek(1) == '*') return not_supported("(*");
        if (peek(1) == '?' && !is_one_of(peek(2), ":=!><")) return options();
        copy(peek(1) == '?' ? 3 : 1);
        group_start_ = output_.size();
        return {};
    }

    // "(?i)" or "(?i:". Without a colon Oniguruma opens a group that ends with the one around it; at the start of a
    // group that is what PCRE2 does too.
    Result<void> options() {
        std::string letters;
        std::size_t length = 2;
        while (is_one_of(peek(length), "im-")) {
            letters += peek(length) == 'm' ? 's' : peek(length);
            ++length;
        }
        const char end = peek(length);
        const bool starts_group = output_.size() == group_start_;
        if (letters.empty() || (end != ':' && (end != ')' || !starts_group))) {
            return not_supported("a group that begins with " + std::string(pattern_.substr(at_, length + 1)));
        }
        replace(length + 1, "(?" + letters + end);
        group_start_ = output_.size();
        return {};
    }

    // {n}, {n,}, {n,m} or {,m}; any other brace is an ordinary character to both.
    Result<void> interval() {
        std::size_t length = 1;
        const auto digits = [&] {
            const std::size_t start = length;
            while (std::isdigit(static_cast<unsigned char>(peek(length))) != 0) ++length;
            return length > start;
        };
        const bool has_min = digits();
        const bool has_comma = peek(length) == ',';
        if (has_comma) ++length;
        const bool has_max = has_comma && digits();
        if (peek(length) != '}' || (!has_min && !has_max)) {
            copy(1);
            return {};
        }
        ++length;
        if (peek(length) == '+' || (peek(length) == '?' && !has_comma)) {
            return not_supported(std::string(pattern_.substr(at_, length + 1)) +
                                 " (a repetition of a repetition to Oniguruma)");
        }
        if (!has_min) replace(1, "{0");
        copy(has_min ? length : length - 1);
        return {};
    }

    std::string_view pattern_;
    std::size_t at_ = 0;
    std::string output_;
    std::size_t group_start_ = 0;
    int class_depth_ = 0;
};

}  // namespace

Result<std::string> to_pcre2(std::string_view pattern) {
    return Translator(pattern).run();
}

}  // namespace chaos::text
