#include "text/template_expressions.h"

#include "base/words.h"

#include <algorithm>
#include <array>

namespace chaos::text {
namespace {

using Kind = TemplateToken::Kind;

constexpr std::size_t max_arguments = 100;

ExpressionPointer pointer_to(Expression expression) {
    return std::make_unique<Expression>(std::move(expression));
}

// How deeply the parts of an expression are nested.
struct Depth {
    int operator()(const Expression& expression) const { return expression.depth; }
    int operator()(const ExpressionPointer& expression) const { return expression == nullptr ? 0 : expression->depth; }
    int operator()(const CallArguments& arguments) const { return of(arguments.positional, arguments.named); }
    int operator()(const NamedArgument& argument) const { return of(argument.value); }
    int operator()(const MappingEntry& entry) const { return of(entry.key, entry.value); }
    int operator()(const Compared& compared) const { return of(compared.with); }
    template <class Item>
    int operator()(const std::vector<Item>& items) const {
        int deepest = 0;
        for (const Item& item : items) deepest = std::max(deepest, (*this)(item));
        return deepest;
    }

    int operator()(const ConstantExpression&) const { return 0; }
    int operator()(const NameExpression&) const { return 0; }
    int operator()(const SequenceExpression& what) const { return of(what.items); }
    int operator()(const MappingExpression& what) const { return of(what.entries); }
    int operator()(const UnaryExpression& what) const { return of(what.operand); }
    int operator()(const BinaryExpression& what) const { return of(what.left, what.right); }
    int operator()(const CompareExpression& what) const { return of(what.first, what.others); }
    int operator()(const ConditionalExpression& what) const { return of(what.condition, what.then, what.otherwise); }
    int operator()(const AttributeExpression& what) const { return of(what.object); }
    int operator()(const ItemExpression& what) const { return of(what.object, what.key); }
    int operator()(const SliceExpression& what) const { return of(what.object, what.start, what.stop, what.step); }
    int operator()(const CallExpression& what) const { return of(what.callee, what.arguments); }
    int operator()(const FilterExpression& what) const { return of(what.input, what.arguments); }
    int operator()(const TestExpression& what) const { return of(what.input, what.arguments); }

private:
    template <class... Parts>
    int of(const Parts&... parts) const {
        return std::max({(*this)(parts)...});
    }
};

}  // namespace

// Keeps the reading itself from going too deep.
class ExpressionParser::Nesting {
public:
    explicit Nesting(ExpressionParser& parser) : parser_(parser) { ++parser_.nesting_; }
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    [[nodiscard]] bool too_deep() const { return parser_.nesting_ > max_template_depth; }

private:
    ExpressionParser& parser_;
};

template <class What>
Result<Expression> ExpressionParser::make(int line, What what) {
    const int depth = 1 + Depth()(what);
    if (depth > max_template_depth) {
        return error("an expression is nested more than " + std::to_string(max_template_depth) + " deep");
    }
    return Expression{line, depth, std::move(what)};
}

bool ExpressionParser::is_sign(std::string_view sign) const {
    return next().kind == Kind::sign && next().text == sign;
}

bool ExpressionParser::is_name(std::string_view name) const {
    return next().kind == Kind::name && next().text == name;
}

bool ExpressionParser::skip_sign(std::string_view sign) {
    if (!is_sign(sign)) return false;
    skip();
    return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
    if (!is_name(name)) return false;
    skip();
    return true;
}

Result<void> ExpressionParser::expect(TemplateToken::Kind kind, std::string_view sign) {
    if (next().kind != kind) return error("'" + std::string(sign) + "' is missing");
    skip();
    return {};
}

Error ExpressionParser::error(const std::string& what) const {
    const TemplateToken& token = next();
    std::string where = "line " + std::to_string(token.line) + ": " + what;
    if (token.kind == Kind::end) {
        where += ", at the end of the template";
    } else if (token.kind == Kind::end_block || token.kind == Kind::end_output) {
        where += ", at the end of a tag";
    } else if (!token.text.empty()) {
        where += ", at '" + printable(token.text) + "'";
    }
    return Error{where};
}

Result<Expression> ExpressionParser::parse_tuple(Options options) {
    const int line = next().line;
    Expressions items;
    bool is_tuple = false;
    const auto at_end = [&] {
        return next().kind == Kind::end_block || next().kind == Kind::end_output || next().kind == Kind::end ||
               is_sign(")");
    };
    while (!at_end()) {
        CHAOS_TRY(Expression item, parse_expression(options.with_conditional));
        items.push_back(std::move(item));
        if (!skip_sign(",")) break;
        is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return std::move(items.front());
    if (!is_tuple && !options.in_parentheses) return error("an expression is missing");
    return make(line, SequenceExpression{Sequence::Kind::tuple, std::move(items)});
}

Result<Expression> ExpressionParser::parse_expression(bool with_conditional) {
    const Nesting nesting(*this);
    if (nesting.too_deep()) return error("an expression is nested too deeply");
    if (!with_conditional) return parse_or();
    CHAOS_TRY(Expression result, parse_or());
    while (skip_name("if")) {
        const int line = result.line;
        CHAOS_TRY(Expression condition, parse_or());
        ConditionalExpression conditional{pointer_to(std::move(condition)), pointer_to(std::move(result)), nullptr};
        if (skip_name("else")) {
            CHAOS_TRY(Expression otherwise, parse_expression());
            conditional.otherwise = pointer_to(std::move(otherwise));
        }
        CHAOS_TRY(result, make(line, std::move(conditional)));
    }
    return result;
}

Result<Expression> ExpressionParser::parse_chain(Parse operand, std::span<const Sign> signs, bool are_names) {
    CHAOS_TRY(Expression left, (this->*operand)());
    while (true) {
        const auto sign = std::ranges::find_if(
            signs, [&](const Sign& one) { return are_names ? is_name(one.text) : is_sign(one.text); });
        if (sign == signs.end()) return left;
        skip();
        CHAOS_TRY(Expression right, (this->*operand)());
        const int line = left.line;
        CHAOS_TRY(left,
                  make(line, BinaryExpression{sign->what, pointer_to(std::move(left)), pointer_to(std::move(right))}));
    }
}

Result<Expression> ExpressionParser::parse_or() {
    static constexpr std::array<Sign, 1> signs = {{{"or", Operator::logical_or}}};
    return parse_chain(&ExpressionParser::parse_and, signs, true);
}

Result<Expression> ExpressionParser::parse_and() {
    static constexpr std::array<Sign, 1> signs = {{{"and", Operator::logical_and}}};
    return parse_chain(&ExpressionParser::parse_not, signs, true);
}

Result<Expression> ExpressionParser::parse_not() {
    const Nesting nesting(*this);
    if (nesting.too_deep()) return error("an expression is nested too deeply");
    const int line = next().line;
    if (!skip_name("not")) return parse_comparison();
    CHAOS_TRY(Expression operand, parse_not());
    return make(line, UnaryExpression{'!', pointer_to(std::move(operand))});
}

Result<Expression> ExpressionParser::parse_comparison() {
    struct Named {
        std::string_view sign;
        Comparison what;
    };
    static constexpr std::array<Named, 6> signs = {{{"==", Comparison::equal},
                                                    {"!=", Comparison::unequal},
                                                    {"<", Comparison::less},
                                                    {"<=", Comparison::less_or_equal},
                                                    {">", Comparison::greater},
                                                    {">=", Comparison::greater_or_equal}}};
    CHAOS_TRY(Expression first, parse_sum());
    std::vector<Compared> others;
    while (true) {
        const auto sign = std::ranges::find_if(signs, [&](const Named& named) { return is_sign(named.sign); });
        std::optional<Comparison> what;
        if (sign != signs.end()) {
            what = sign->what;
        } else if (is_name("in")) {
            what = Comparison::in;
        } else if (is_name("not") && next(1).kind == Kind::name && next(1).text == "in") {
            skip();
            what = Comparison::not_in;
        } else {
            break;
        }
        skip();
        CHAOS_TRY(Expression other, parse_sum());
        others.push_back({*what, std::move(other)});
    }
    if (others.empty()) return first;
    const int line = first.line;
    return make(line, CompareExpression{pointer_to(std::move(first)), std::move(others)});
}

Result<Expression> ExpressionParser::parse_sum() {
    static constexpr std::array<Sign, 2> signs = {{{"+", Operator::add}, {"-", Operator::subtract}}};
    return parse_chain(&ExpressionParser::parse_join, signs, false);
}

Result<Expression> ExpressionParser::parse_join() {
    static constexpr std::array<Sign, 1> signs = {{{"~", Operator::join}}};
    return parse_chain(&ExpressionParser::parse_product, signs, false);
}

Result<Expression> ExpressionParser::parse_product() {
    static constexpr std::array<Sign, 4> signs = {{{"*", Operator::multiply},
                                                   {"/", Operator::divide},
                                                   {"//", Operator::divide_down},
                                                   {"%", Operator::remainder}}};
    return parse_chain(&ExpressionParser::parse_power, signs, false);
}

// From left to right, as Jinja has it, other than Python.
Result<Expression> ExpressionParser::parse_power() {
    static constexpr std::array<Sign, 1> signs = {{{"**", Operator::power}}};
    return parse_chain(&ExpressionParser::parse_filtered_unary, signs, false);
}

Result<Expression> ExpressionParser::parse_unary(bool with_filters) {
    const Nesting nesting(*this);
    if (nesting.too_deep()) return error("an expression is nested too deeply");
    const int line = next().line;
    const char sign = is_sign("-") ? '-' : is_sign("+") ? '+' : ' ';
    if (sign != ' ') skip();
    CHAOS_TRY(Expression result, sign == ' ' ? parse_primary() : parse_unary(false));
    if (sign != ' ') {
        CHAOS_TRY(result, make(line, UnaryExpression{sign, pointer_to(std::move(result))}));
    }
    CHAOS_TRY(result, parse_postfix(std::move(result)));
    while (with_filters) {
        if (is_sign("|")) {
            CHAOS_TRY(result, parse_filters(std::move(result), false));
        } else if (skip_name("is")) {
            CHAOS_TRY(result, parse_test(std::move(result)));
        } else if (is_sign("(")) {
            CHAOS_TRY(result, parse_postfix(std::move(result)));
        } else {
            break;
        }
    }
    return result;
}

Result<Expression> ExpressionParser::parse_primary() {
    const TemplateToken& token = next();
    const int line = token.line;
    switch (token.kind) {
        case Kind::name: {
            skip();
            const std::string& name = token.text;
            if (name == "true" || name == "True") return make(line, ConstantExpression{Value(true)});
            if (name == "false" || name == "False") return make(line, ConstantExpression{Value(false)});
            if (name == "none" || name == "None") return make(line, ConstantExpression{Value()});
            return make(line, NameExpression{name});
        }
        case Kind::string: {
            std::string text;
            for (; next().kind == Kind::string; skip()) text += next().text;
            return make(line, ConstantExpression{Value::text(std::move(text))});
        }
        case Kind::integer:
            skip();
            return make(line, ConstantExpression{Value(token.integer)});
        case Kind::real:
            skip();
            return make(line, ConstantExpression{Value(token.real)});
        default:
            break;
    }
    if (is_sign("[")) return parse_list();
    if (is_sign("{")) return parse_mapping();
    if (!skip_sign("(")) return error("an expression is missing");
    CHAOS_TRY(Expression inner, parse_tuple({.in_parentheses = true}));
    if (!skip_sign(")")) return error("')' is missing");
    return inner;
}

Result<Expression> ExpressionParser::parse_list() {
    const int line = next().line;
    skip();
    Expressions items;
    while (!skip_sign("]")) {
        if (!items.empty() && !skip_sign(",")) return error("',' is missing");
        if (skip_sign("]")) break;
        CHAOS_TRY(Expression item, parse_expression());
        items.push_back(std::move(item));
    }
    return make(line, SequenceExpression{Sequence::Kind::list, std::move(items)});
}

Result<Expression> ExpressionParser::parse_mapping() {
    const int line = next().line;
    skip();
    MappingExpression mapping;
    while (!skip_sign("}")) {
        if (!mapping.entries.empty() && !skip_sign(",")) return error("',' is missing");
        if (skip_sign("}")) break;
        CHAOS_TRY(Expression key, parse_expression());
        if (!skip_sign(":")) return error("':' is missing");
        CHAOS_TRY(Expression value, parse_expression());
        mapping.entries.push_back({std::move(key), std::move(value)});
    }
    return make(line, std::move(mapping));
}

Result<Expression> ExpressionParser::parse_postfix(Expression expression) {
    while (true) {
        const int line = next().line;
        if (skip_sign(".")) {
            const TemplateToken& token = next();
            if (token.kind == Kind::name) {
                skip();
                CHAOS_TRY(expression, make(line, AttributeExpression{pointer_to(std::move(expression)), token.text}));
            } else if (token.kind == Kind::integer) {
                skip();
                CHAOS_TRY(Expression key, make(line, ConstantExpression{Value(token.integer)}));
                CHAOS_TRY(expression,
                          make(line, ItemExpression{pointer_to(std::move(expression)), pointer_to(std::move(key))}));
            } else {
                return error("a name is missing behind '.'");
            }
        } else if (is_sign("[")) {
            CHAOS_TRY(expression, parse_subscript(std::move(expression)));
        } else if (is_sign("(")) {
            CHAOS_TRY(CallArguments arguments, parse_arguments());
            CHAOS_TRY(expression, make(line, CallExpression{pointer_to(std::move(expression)), std::move(arguments)}));
        } else {
            return expression;
        }
    }
}

Result<Expression> ExpressionParser::parse_subscript(Expression object) {
    const int line = next().line;
    skip();
    ExpressionPointer start;
    const auto parse_bound = [&]() -> Result<ExpressionPointer> {
        if (is_sign(":") || is_sign("]")) return ExpressionPointer();
        CHAOS_TRY(Expression bound, parse_expression());
        return pointer_to(std::move(bound));
    };
    CHAOS_TRY(start, parse_bound());
    if (skip_sign("]")) {
        if (start == nullptr) return error("a key is missing between brackets");
        return make(line, ItemExpression{pointer_to(std::move(object)), std::move(start)});
    }
    if (!skip_sign(":")) return error("']' is missing");
    CHAOS_TRY(ExpressionPointer stop, parse_bound());
    ExpressionPointer step;
    if (skip_sign(":")) {
        CHAOS_TRY(step, parse_bound());
    }
    if (!skip_sign("]")) return error("']' is missing");
    return make(line,
                SliceExpression{pointer_to(std::move(object)), std::move(start), std::move(stop), std::move(step)});
}

Result<Expression> ExpressionParser::parse_filters(std::optional<Expression> input, bool is_inline) {
    while (is_inline || is_sign("|")) {
        if (!is_inline) skip();
        is_inline = false;
        const int line = next().line;
        if (next().kind != Kind::name) return error("the name of a filter is missing");
        FilterExpression filter{input ? pointer_to(std::move(*input)) : nullptr, next().text, {}};
        skip();
        if (is_sign("(")) {
            CHAOS_TRY(filter.arguments, parse_arguments());
        }
        CHAOS_TRY(input, make(line, std::move(filter)));
    }
    return std::move(*input);
}

Result<Expression> ExpressionParser::parse_test(Expression input) {
    const int line = next().line;
    const bool is_negated = skip_name("not");
    if (next().kind != Kind::name) return error("the name of a test is missing behind 'is'");
    TestExpression test{pointer_to(std::move(input)), next().text, {}};
    skip();
    const bool is_constant = next().kind == Kind::string || next().kind == Kind::integer || next().kind == Kind::real;
    const bool is_argument = next().kind == Kind::name && !is_name("else") && !is_name("or") && !is_name("and");
    if (is_sign("(")) {
        CHAOS_TRY(test.arguments, parse_arguments());
    } else if (is_constant || is_argument || is_sign("[") || is_sign("{")) {
        if (is_name("is")) return error("tests cannot follow one another");
        CHAOS_TRY(Expression argument, parse_primary());
        CHAOS_TRY(argument, parse_postfix(std::move(argument)));
        test.arguments.positional.push_back(std::move(argument));
    }
    CHAOS_TRY(Expression result, make(line, std::move(test)));
    if (!is_negated) return result;
    return make(line, UnaryExpression{'!', pointer_to(std::move(result))});
}

Result<CallArguments> ExpressionParser::parse_arguments() {
    CallArguments arguments;
    skip();
    bool is_first = true;
    while (!skip_sign(")")) {
        if (!is_first && !skip_sign(",")) return error("',' is missing");
        is_first = false;
        if (skip_sign(")")) break;
        if (arguments.positional.size() + arguments.named.size() == max_arguments) {
            return error("a call has more than " + std::to_string(max_arguments) + " arguments");
        }
        if (is_sign("*") || is_sign("**")) return error("arguments from a list or a mapping are not supported");
        const bool is_named = next().kind == Kind::name && next(1).kind == Kind::sign && next(1).text == "=";
        if (is_named) {
            std::string name = next().text;
            skip();
            skip();
            CHAOS_TRY(Expression value, parse_expression());
            arguments.named.push_back({std::move(name), std::move(value)});
        } else {
            if (!arguments.named.empty()) return error("an argument without a name follows one that has one");
            CHAOS_TRY(Expression value, parse_expression());
            arguments.positional.push_back(std::move(value));
        }
    }
    return arguments;
}

}  // namespace chaos::text
