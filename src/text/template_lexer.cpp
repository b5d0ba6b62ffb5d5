#include "text/template_lexer.h"

#include "base/words.h"
#include "text/template_strings.h"
#include "text/utf8.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace chaos::text {
namespace {

using Kind = TemplateToken::Kind;

bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_decimal(char c) {
    return c >= '0' && c <= '9';
}

// Every line ends with "\n"; a line break at the very end is not part of the template.
std::string with_plain_lines(std::string_view source) {
    std::string result = replace_invalid_utf8(source);
    result = replace(result, "\r\n", "\n", no_limit);
    std::ranges::replace(result, '\r', '\n');
    if (result.ends_with('\n')) result.pop_back();
    return result;
}

class Lexer {
public:
    explicit Lexer(std::string_view source) : source_(source) {}

    Result<std::vector<TemplateToken>> run() {
        while (at_ < source_.size()) {
            const std::size_t tag = next_tag();
            CHAOS_CHECK(pass_data(tag));
            if (tag == source_.size()) break;
            CHAOS_CHECK(pass_tag());
        }
        push(Kind::end, "");
        return std::move(tokens_);
    }

private:
    [[nodiscard]] Error error(const std::string& what) const {
        return Error{"line " + std::to_string(line_) + ": " + what};
    }
    [[nodiscard]] std::string_view rest() const { return source_.substr(at_); }
    [[nodiscard]] bool continues(std::string_view text) const { return rest().starts_with(text); }

    void push(Kind kind, std::string_view text) {
        TemplateToken token;
        token.kind = kind;
        token.text = text;
        token.line = line_;
        tokens_.push_back(std::move(token));
    }

    void advance(std::size_t bytes) {
        line_ += static_cast<int>(std::ranges::count(source_.substr(at_, bytes), '\n'));
        at_ += bytes;
    }

    void skip_space() {
        while (at_ < source_.size() && is_python_space(character_at(source_, at_).code)) {
            advance(character_at(source_, at_).bytes);
        }
    }

    [[nodiscard]] std::size_t next_tag() const {
        std::size_t at = source_.find('{', at_);
        for (; at < source_.size(); at = source_.find('{', at + 1)) {
            const char next = at + 1 < source_.size() ? source_[at + 1] : ' ';
            if (next == '{' || next == '%' || next == '#') return at;
        }
        return source_.size();
    }

    // The text up to `end`, where a tag or the end of the template is; the tag's sign says what becomes of white space.
    Result<void> pass_data(std::size_t end) {
        std::string_view data = source_.substr(at_, end - at_);
        const bool before_tag = end < source_.size();
        const char sign = end + 2 < source_.size() ? source_[end + 2] : ' ';
        if (before_tag && sign == '-') {
            data = strip(data, Side::right);
        } else if (before_tag && sign != '+' && source_[end + 1] != '{') {
            const std::size_t line_begin = data.rfind('\n') + 1;
            const bool begins_line = line_begin > 0 || at_line_start_;
            if (begins_line && strip(data.substr(line_begin), Side::left).empty()) data = data.substr(0, line_begin);
        }
        if (!data.empty()) push(Kind::data, data);
        advance(end - at_);
        return {};
    }

    Result<void> pass_tag() {
        const char kind = source_[at_ + 1];
        if (kind == '#') return pass_comment();
        const int line = line_;
        if (kind == '%') {
            if (const std::optional<std::size_t> raw = raw_tag_bytes(at_, "raw")) return pass_raw(*raw);
        }
        push(kind == '%' ? Kind::begin_block : Kind::begin_output, "");
        advance(2);
        if (continues("-") || continues("+")) advance(1);
        brackets_.clear();
        while (true) {
            skip_space();
            if (at_ == source_.size()) {
                return Error{"line " + std::to_string(line) + ": the tag that begins here has no end"};
            }
            if (brackets_.empty() && pass_tag_end(kind)) return {};
            CHAOS_CHECK(pass_token());
        }
    }

    // Behind a tag: `-` takes all white space along, without a sign a block takes one line break, with `+` nothing.
    void finish_tag(bool strips, bool trims) {
        if (strips) {
            skip_space();
        } else if (trims && continues("\n")) {
            advance(1);
        }
        at_line_start_ = at_ > 0 && source_[at_ - 1] == '\n';
    }

    bool pass_tag_end(char kind) {
        const std::string_view close = kind == '%' ? "%}" : "}}";
        const char sign = continues("-") ? '-' : kind == '%' && continues("+") ? '+' : ' ';
        const std::size_t sign_bytes = sign == ' ' ? 0 : 1;
        if (!rest().substr(sign_bytes).starts_with(close)) return false;
        push(kind == '%' ? Kind::end_block : Kind::end_output, "");
        advance(sign_bytes + 2);
        finish_tag(sign == '-', kind == '%' && sign == ' ');
        return true;
    }

    Result<void> pass_comment() {
        const bool has_sign = rest().substr(2).starts_with('-') || rest().substr(2).starts_with('+');
        const std::size_t begin = at_ + (has_sign ? 3 : 2);
        const std::size_t close = source_.find("#}", begin);
        if (close == std::string_view::npos) return error("the comment that begins here has no end");
        const char sign = close > begin ? source_[close - 1] : ' ';
        advance(close + 2 - at_);
        finish_tag(sign == '-', sign != '+');
        return {};
    }

    // The size of the tag {% NAME %} at `at`, if that is what stands there.
    [[nodiscard]] std::optional<std::size_t> raw_tag_bytes(std::size_t at, std::string_view name) const {
        std::string_view tag = source_.substr(at);
        if (!tag.starts_with("{%")) return std::nullopt;
        tag.remove_prefix(2);
        if (tag.starts_with('-') || tag.starts_with('+')) tag.remove_prefix(1);
        tag = strip(tag, Side::left);
        if (!tag.starts_with(name)) return std::nullopt;
        tag = strip(tag.substr(name.size()), Side::left);
        if (tag.starts_with('-') || (tag.starts_with('+') && name == "endraw")) tag.remove_prefix(1);
        if (!tag.starts_with("%}")) return std::nullopt;
        return source_.size() - at - (tag.size() - 2);
    }

    Result<void> pass_raw(std::size_t tag_bytes) {
        const int line = line_;
        advance(tag_bytes);
        finish_tag(source_[at_ - 3] == '-', false);
        for (std::size_t end = source_.find("{%", at_); end < source_.size(); end = source_.find("{%", end + 1)) {
            const std::optional<std::size_t> bytes = raw_tag_bytes(end, "endraw");
            if (!bytes) continue;
            CHAOS_CHECK(pass_data(end));
            advance(*bytes);
            const char sign = source_[at_ - 3];
            finish_tag(sign == '-', sign != '+');
            return {};
        }
        return Error{"line " + std::to_string(line) + ": {% raw %} has no {% endraw %}"};
    }

    Result<void> pass_token() {
        const char c = source_[at_];
        if (is_name_start(c)) {
            std::size_t bytes = 1;
            while (bytes < rest().size() && (is_name_start(rest()[bytes]) || is_decimal(rest()[bytes]))) ++bytes;
            push(Kind::name, rest().substr(0, bytes));
            advance(bytes);
            return {};
        }
        if (is_decimal(c)) return pass_number();
        if (c == '\'' || c == '"') return pass_string(c);
        return pass_sign();
    }

    Result<void> pass_number() {
        const std::string_view text = rest();
        std::size_t end = 0;
        const auto pass_digits = [&] {
            while (end < text.size() && (is_decimal(text[end]) || text[end] == '_')) ++end;
        };
        pass_digits();
        bool is_real = false;
        // Not in a.0.1, the item 1 of an item 0.
        const bool follows_point = source_[at_ - 1] == '.';
        if (!follows_point && end + 1 < text.size() && text[end] == '.' && is_decimal(text[end + 1])) {
            is_real = true;
            ++end;
            pass_digits();
        }
        if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
            const std::size_t sign = end + 1 < text.size() && (text[end + 1] == '-' || text[end + 1] == '+') ? 1 : 0;
            if (end + 1 + sign < text.size() && is_decimal(text[end + 1 + sign])) {
                is_real = true;
                end += 1 + sign;
                pass_digits();
            }
        }
        const std::string digits = replace(text.substr(0, end), "_", "", no_limit);
        const bool is_other_base = end < text.size() && is_name_start(text[end]);
        const bool has_leading_zero = !is_real && digits.size() > 1 && digits.front() == '0';
        push(is_real ? Kind::real : Kind::integer, digits);
        const char* last = digits.data() + digits.size();
        const std::from_chars_result parsed = is_real ? std::from_chars(digits.data(), last, tokens_.back().real)
                                                      : std::from_chars(digits.data(), last, tokens_.back().integer);
        if (parsed.ec != std::errc() || parsed.ptr != last || is_other_base || has_leading_zero) {
            return error("the number '" + digits + "' is not supported");
        }
        advance(end);
        return {};
    }

    Result<void> pass_string(char quote) {
        std::string value;
        std::size_t at = 1;
        const std::string_view text = rest();
        while (at < text.size() && text[at] != quote) {
            if (text[at] == '\\' && at + 1 < text.size()) {
                CHAOS_TRY(const std::size_t bytes, append_escape(value, text.substr(at)));
                at += bytes;
            } else {
                value += text[at++];
            }
        }
        if (at >= text.size()) return error("the string that begins here has no end");
        push(Kind::string, value);
        advance(at + 1);
        return {};
    }

    // What an escape at the start of `text` stands for is appended to `value`; returned is how long it was.
    Result<std::size_t> append_escape(std::string& value, std::string_view text) const {
        const char c = text[1];
        constexpr std::string_view names = "\\'\"abfnrtv";
        constexpr std::string_view meanings = "\\'\"\a\b\f\n\r\t\v";
        if (const std::size_t index = names.find(c); index != std::string_view::npos) {
            value += meanings[index];
            return 2;
        }
        if (c == '\n') return 2;
        const auto number = [&](std::size_t digits, std::size_t begin, int base) -> Result<std::size_t> {
            const std::string_view spelled = text.substr(begin, digits);
            std::uint32_t code = 0;
            const auto parsed = std::from_chars(spelled.data(), spelled.data() + spelled.size(), code, base);
            const auto used = static_cast<std::size_t>(parsed.ptr - spelled.data());
            const bool is_whole = base == 8 || used == digits;
            const bool is_character = code < 0xD800 || (code >= 0xE000 && code < 0x110000);
            if (parsed.ec != std::errc() || !is_whole || !is_character) {
                return error("the escape '" + printable(text.substr(0, begin + digits)) + "' is not supported");
            }
            append_character(value, code);
            return begin + used;
        };
        if (c == 'x') return number(2, 2, 16);
        if (c == 'u') return number(4, 2, 16);
        if (c == 'U') return number(8, 2, 16);
        if (c >= '0' && c <= '7') return number(3, 1, 8);
        if (c == 'N' || static_cast<unsigned char>(c) >= 0x80) {
            return error("the escape '\\" + std::string(text.substr(1, character_at(text, 1).bytes)) +
                         "' is not supported");
        }
        value += '\\';
        return 1;
    }

    Result<void> pass_sign() {
        constexpr std::array<std::string_view, 6> pairs = {"==", "!=", "<=", ">=", "//", "**"};
        constexpr std::string_view singles = "+-*/%~|.,:=<>()[]{}";
        std::string_view sign = rest().substr(0, 2);
        if (std::ranges::find(pairs, sign) == pairs.end()) sign = rest().substr(0, 1);
        if (sign.size() == 1 && singles.find(sign.front()) == std::string_view::npos) {
            const std::size_t bytes = character_at(source_, at_).bytes;
            return error("'" + printable(rest().substr(0, bytes)) + "' does not belong into a tag");
        }
        constexpr std::string_view openers = "([{";
        constexpr std::string_view closers = ")]}";
        if (openers.find(sign) != std::string_view::npos) {
            brackets_ += closers[openers.find(sign)];
        } else if (closers.find(sign) != std::string_view::npos) {
            if (brackets_.empty() || brackets_.back() != sign.front()) {
                return error("'" + std::string(sign) + "' closes nothing");
            }
            brackets_.pop_back();
        }
        push(Kind::sign, sign);
        advance(sign.size());
        return {};
    }

    std::string_view source_;
    std::size_t at_ = 0;
    int line_ = 1;
    bool at_line_start_ = true;
    std::string brackets_;  // those that close the open ones
    std::vector<TemplateToken> tokens_;
};

}  // namespace

Result<std::vector<TemplateToken>> cut_template(std::string_view source) {
    const std::string plain = with_plain_lines(source);
    return Lexer(plain).run();
}

}  // namespace chaos::text
