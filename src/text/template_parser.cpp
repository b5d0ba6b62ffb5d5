#include "text/template_parser.h"

#include "base/words.h"
#include "text/template_expressions.h"
#include "text/template_lexer.h"

#include <algorithm>
#include <array>
#include <span>

namespace chaos::text {
namespace {

using Kind = TemplateToken::Kind;

class Parser : ExpressionParser {
public:
    explicit Parser(std::span<const TemplateToken> tokens) : ExpressionParser(tokens) {}

    Result<Body> run() {
        constexpr std::array<std::string_view, 0> nothing{};
        return parse_body(nothing);
    }

private:
    using Names = std::span<const std::string_view>;

    // Statements up to a tag that is one of `ends`, of which the name is left to be read; without ends, all of them.
    Result<Body> parse_body(Names ends) {
        const int opening_line = next().line;
        if (depth_ == max_template_depth) {
            return error("statements are nested more than " + std::to_string(max_template_depth) + " deep");
        }
        ++depth_;
        Body body;
        while (true) {
            const TemplateToken& token = next();
            if (token.kind == Kind::end) {
                if (!ends.empty()) {
                    return Error{"line " + std::to_string(opening_line) + ": the block that begins here has no '" +
                                 std::string(ends.back()) + "'"};
                }
                break;
            }
            if (token.kind == Kind::data) {
                body.push_back({token.line, DataStatement{token.text}});
                skip();
            } else if (token.kind == Kind::begin_output) {
                const int line = token.line;
                skip();
                CHAOS_TRY(Expression value, parse_tuple({}));
                CHAOS_CHECK(expect(Kind::end_output, "}}"));
                body.push_back({line, OutputStatement{std::move(value)}});
            } else {
                skip();  // the beginning of a block
                if (std::ranges::any_of(ends, [&](std::string_view name) { return is_name(name); })) break;
                CHAOS_TRY(Statement statement, parse_statement());
                body.push_back(std::move(statement));
            }
        }
        --depth_;
        return body;
    }

    // The rest of an opening tag, a body, and the tag `end` with what closes it.
    Result<Body> parse_block(std::string_view end) {
        CHAOS_CHECK(expect(Kind::end_block, "%}"));
        const std::array<std::string_view, 1> ends = {end};
        CHAOS_TRY(Body body, parse_body(ends));
        skip();
        CHAOS_CHECK(expect(Kind::end_block, "%}"));
        return body;
    }

    // Where variables that are set are gone after the block, and where a loop outside cannot be left.
    Result<Body> parse_inner_block(std::string_view end) {
        const int loops = std::exchange(loops_, 0);
        const bool at_top = std::exchange(at_top_, false);
        CHAOS_TRY(Body body, parse_block(end));
        loops_ = loops;
        at_top_ = at_top;
        return body;
    }

    Result<Statement> parse_statement() {
        const int line = next().line;
        if (next().kind != Kind::name) return error("a tag begins with its name");
        const std::string name = next().text;
        skip();
        if (name == "if") return parse_if(line);
        if (name == "for") return parse_for(line);
        if (name == "set") return parse_set(line);
        if (name == "macro") return parse_macro(line);
        if (name == "with") return parse_with(line);
        if (name == "filter") {
            CHAOS_TRY(Expression filter, parse_filters(std::nullopt, true));
            CHAOS_TRY(Body body, parse_inner_block("endfilter"));
            return Statement{line, FilterStatement{std::move(filter), std::move(body)}};
        }
        if (name == "generation") {
            CHAOS_TRY(Body body, parse_inner_block("endgeneration"));
            return Statement{line, GenerationStatement{std::move(body)}};
        }
        if (name == "break" || name == "continue") {
            if (loops_ == 0) return Error{"line " + std::to_string(line) + ": '" + name + "' stands in no loop"};
            CHAOS_CHECK(expect(Kind::end_block, "%}"));
            if (name == "break") return Statement{line, BreakStatement{}};
            return Statement{line, ContinueStatement{}};
        }
        const bool closes = name.starts_with("end") || name == "else" || name == "elif";
        return Error{"line " + std::to_string(line) + ": the tag '" + printable(name) + "' " +
                     (closes ? "closes nothing" : "is not supported")};
    }

    Result<Statement> parse_if(int line) {
        IfStatement statement;
        while (true) {
            CHAOS_TRY(Expression condition, parse_tuple({.with_conditional = false}));
            CHAOS_CHECK(expect(Kind::end_block, "%}"));
            constexpr std::array<std::string_view, 3> ends = {"elif", "else", "endif"};
            CHAOS_TRY(Body body, parse_body(ends));
            statement.branches.emplace_back(std::move(condition), std::move(body));
            const std::string end = next().text;
            skip();
            if (end == "elif") continue;
            if (end == "else") {
                CHAOS_TRY(statement.otherwise, parse_block("endif"));
            } else {
                CHAOS_CHECK(expect(Kind::end_block, "%}"));
            }
            return Statement{line, std::move(statement)};
        }
    }

    Result<Statement> parse_for(int line) {
        CHAOS_TRY(Target target, parse_target(false));
        if (!skip_name("in")) return error("'in' is missing");
        CHAOS_TRY(Expression items, parse_tuple({.with_conditional = false}));
        ForStatement statement{std::move(target), std::move(items), std::nullopt, {}, {}};
        if (skip_name("if")) {
            CHAOS_TRY(statement.condition, parse_expression());
        }
        if (is_name("recursive")) return error("a recursive loop is not supported");
        CHAOS_CHECK(expect(Kind::end_block, "%}"));
        const bool at_top = std::exchange(at_top_, false);
        ++loops_;
        constexpr std::array<std::string_view, 2> ends = {"else", "endfor"};
        CHAOS_TRY(statement.body, parse_body(ends));
        --loops_;
        if (skip_name("else")) {
            CHAOS_TRY(statement.otherwise, parse_block("endfor"));
        } else {
            skip();
            CHAOS_CHECK(expect(Kind::end_block, "%}"));
        }
        at_top_ = at_top;
        return Statement{line, std::move(statement)};
    }

    Result<Statement> parse_set(int line) {
        CHAOS_TRY(Target target, parse_target(true));
        if (skip_sign("=")) {
            CHAOS_TRY(Expression value, parse_tuple({}));
            CHAOS_CHECK(expect(Kind::end_block, "%}"));
            return Statement{line, SetStatement{std::move(target), std::move(value)}};
        }
        SetBlockStatement statement{std::move(target), std::nullopt, {}};
        if (is_sign("|")) {
            CHAOS_TRY(statement.filter, parse_filters(std::nullopt, false));
        }
        CHAOS_TRY(statement.body, parse_inner_block("endset"));
        return Statement{line, std::move(statement)};
    }

    Result<Statement> parse_macro(int line) {
        if (!at_top_) {
            return Error{"line " + std::to_string(line) + ": a macro inside a loop or a block is not supported"};
        }
        Macro macro;
        CHAOS_TRY(macro.name, parse_name());
        if (!skip_sign("(")) return error("'(' is missing");
        while (!skip_sign(")")) {
            if (!macro.parameters.empty() && !skip_sign(",")) return error("',' is missing");
            Macro::Parameter parameter;
            CHAOS_TRY(parameter.name, parse_name());
            if (skip_sign("=")) {
                CHAOS_TRY(parameter.otherwise, parse_expression());
            } else if (!macro.parameters.empty() && macro.parameters.back().otherwise) {
                return error("a parameter without a default follows one that has one");
            }
            macro.parameters.push_back(std::move(parameter));
        }
        CHAOS_TRY(macro.body, parse_inner_block("endmacro"));
        return Statement{line, std::move(macro)};
    }

    Result<Statement> parse_with(int line) {
        WithStatement statement;
        while (next().kind != Kind::end_block) {
            if (!statement.values.empty() && !skip_sign(",")) return error("',' is missing");
            CHAOS_TRY(Target target, parse_target(false));
            if (!skip_sign("=")) return error("'=' is missing");
            CHAOS_TRY(Expression value, parse_expression());
            statement.values.emplace_back(std::move(target), std::move(value));
        }
        const bool at_top = std::exchange(at_top_, false);
        CHAOS_TRY(statement.body, parse_block("endwith"));
        at_top_ = at_top;
        return Statement{line, std::move(statement)};
    }

    Result<std::string> parse_name() {
        if (next().kind != Kind::name) return error("a name is missing");
        std::string name = next().text;
        skip();
        return name;
    }

    Result<Target> parse_target(bool with_members) {
        Target all;
        bool is_single = true;
        do {
            if (!all.parts.empty() && next().kind != Kind::name && !is_sign("(")) break;
            CHAOS_TRY(Target part, parse_target_part(with_members));
            all.parts.push_back(std::move(part));
            is_single = is_single && !is_sign(",");
        } while (skip_sign(","));
        if (is_single) return std::move(all.parts.front());
        return all;
    }

    Result<Target> parse_target_part(bool with_members) {
        if (skip_sign("(")) {
            if (depth_ == max_template_depth) return error("names are nested too deeply");
            ++depth_;
            CHAOS_TRY(Target inner, parse_target(with_members));
            --depth_;
            if (!skip_sign(")")) return error("')' is missing");
            return inner;
        }
        Target target;
        CHAOS_TRY(target.name, parse_name());
        constexpr std::array<std::string_view, 6> constants = {"true", "false", "none", "True", "False", "None"};
        if (std::ranges::find(constants, target.name) != constants.end()) {
            return error("'" + target.name + "' is no name that can be set");
        }
        if (with_members && skip_sign(".")) {
            CHAOS_TRY(target.member, parse_name());
        }
        return target;
    }

    int depth_ = 0;
    int loops_ = 0;       // around here, inside the innermost macro or block
    bool at_top_ = true;  // what is set here is seen by the whole template
};

}  // namespace

Result<Body> parse_template(std::string_view source) {
    CHAOS_TRY(const std::vector<TemplateToken> tokens, cut_template(source));
    return Parser(tokens).run();
}

}  // namespace chaos::text
