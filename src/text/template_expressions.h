// Reads the expressions of a template: what stands between {{ and }}, behind `if` or behind `=`.
#pragma once

#include "base/result.h"
#include "text/template_lexer.h"
#include "text/template_syntax.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace chaos::text {

class ExpressionParser {
public:
    // The last token must be the end of the template.
    explicit ExpressionParser(std::span<const TemplateToken> tokens) : tokens_(tokens) {}

protected:
    struct Options {
        bool with_conditional = true;  // "a if b else c" is one expression
        bool in_parentheses = false;   // so that () is an empty tuple
    };

    // Expressions with commas between them are a tuple.
    Result<Expression> parse_tuple(Options options);
    Result<Expression> parse_expression(bool with_conditional = true);
    // "|name(...)|name(...)"; `is_inline`: without the first "|". Without an input, they are for the text of a block.
    Result<Expression> parse_filters(std::optional<Expression> input, bool is_inline);

    [[nodiscard]] const TemplateToken& next(std::size_t ahead = 0) const {
        return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
    }
    void skip() { at_ = std::min(at_ + 1, tokens_.size() - 1); }
    [[nodiscard]] bool is_sign(std::string_view sign) const;
    [[nodiscard]] bool is_name(std::string_view name) const;
    bool skip_sign(std::string_view sign);
    bool skip_name(std::string_view name);
    Result<void> expect(TemplateToken::Kind kind, std::string_view sign);
    [[nodiscard]] Error error(const std::string& what) const;

private:
    using Parse = Result<Expression> (ExpressionParser::*)();

    Result<Expression> parse_or();
    Result<Expression> parse_and();
    Result<Expression> parse_not();
    Result<Expression> parse_comparison();
    Result<Expression> parse_sum();
    Result<Expression> parse_join();
    Result<Expression> parse_product();
    Result<Expression> parse_power();
    Result<Expression> parse_filtered_unary() { return parse_unary(true); }
    Result<Expression> parse_unary(bool with_filters);
    Result<Expression> parse_primary();
    Result<Expression> parse_list();
    Result<Expression> parse_mapping();
    Result<Expression> parse_postfix(Expression expression);
    Result<Expression> parse_subscript(Expression object);
    Result<Expression> parse_test(Expression input);
    Result<CallArguments> parse_arguments();

    struct Sign {
        std::string_view text;
        Operator what;
    };
    // Operands with operators between them, from left to right.
    Result<Expression> parse_chain(Parse operand, std::span<const Sign> signs, bool are_names);

    // Refused where it is nested too deeply.
    template <class What>
    Result<Expression> make(int line, What what);
    class Nesting;

    std::span<const TemplateToken> tokens_;
    std::size_t at_ = 0;
    int nesting_ = 0;  // of expressions being read
};

}  // namespace chaos::text
