// The parts a parsed template consists of.
#pragma once

#include "text/template_value.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace chaos::text {

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;
using Expressions = std::vector<Expression>;

struct NamedArgument;
struct CallArguments {
    Expressions positional;
    std::vector<NamedArgument> named;
};

struct ConstantExpression {
    Value value;
};
struct NameExpression {
    std::string name;
};
struct SequenceExpression {
    Sequence::Kind kind;
    Expressions items;
};
struct MappingEntry;
struct MappingExpression {
    std::vector<MappingEntry> entries;
};
struct UnaryExpression {
    char sign;  // '-', '+', or '!' for not
    ExpressionPointer operand;
};
enum class Operator { add, subtract, multiply, divide, divide_down, remainder, power, join, logical_and, logical_or };
struct BinaryExpression {
    Operator what;
    ExpressionPointer left;
    ExpressionPointer right;
};
enum class Comparison { equal, unequal, less, less_or_equal, greater, greater_or_equal, in, not_in };
// a < b < c holds where both do.
struct Compared;
struct CompareExpression {
    ExpressionPointer first;
    std::vector<Compared> others;
};
struct ConditionalExpression {
    ExpressionPointer condition;
    ExpressionPointer then;
    ExpressionPointer otherwise;  // may be null
};
struct AttributeExpression {
    ExpressionPointer object;
    std::string name;
};
struct ItemExpression {
    ExpressionPointer object;
    ExpressionPointer key;
};
struct SliceExpression {
    ExpressionPointer object;
    // Each may be null.
    ExpressionPointer start;
    ExpressionPointer stop;
    ExpressionPointer step;
};
struct CallExpression {
    ExpressionPointer callee;
    CallArguments arguments;
};
struct FilterExpression {
    ExpressionPointer input;  // null for the text of a block
    std::string name;
    CallArguments arguments;
};
struct TestExpression {
    ExpressionPointer input;
    std::string name;
    CallArguments arguments;
};

struct Expression {
    int line;
    int depth;  // of expressions in one another
    std::variant<ConstantExpression, NameExpression, SequenceExpression, MappingExpression, UnaryExpression,
                 BinaryExpression, CompareExpression, ConditionalExpression, AttributeExpression, ItemExpression,
                 SliceExpression, CallExpression, FilterExpression, TestExpression>
        what;
};

struct NamedArgument {
    std::string name;
    Expression value;
};
struct MappingEntry {
    Expression key;
    Expression value;
};
struct Compared {
    Comparison how;
    Expression with;
};

struct Statement;
using Body = std::vector<Statement>;

// What a value is given to: a name, a member of a namespace, or several of them.
struct Target {
    std::string name;
    std::string member;         // of the namespace `name`; empty for the name itself
    std::vector<Target> parts;  // not empty: the value is taken apart
};

struct DataStatement {
    std::string text;
};
struct OutputStatement {
    Expression value;
};
struct IfStatement {
    std::vector<std::pair<Expression, Body>> branches;
    Body otherwise;
};
struct ForStatement {
    Target target;
    Expression items;
    std::optional<Expression> condition;
    Body body;
    Body otherwise;
};
struct SetStatement {
    Target target;
    Expression value;
};
struct SetBlockStatement {
    Target target;
    std::optional<Expression> filter;
    Body body;
};
struct FilterStatement {
    Expression filter;
    Body body;
};
struct WithStatement {
    std::vector<std::pair<Target, Expression>> values;
    Body body;
};
// The stretch of a template that an assistant said. It is of interest in training only, but a scope of its own.
struct GenerationStatement {
    Body body;
};
struct BreakStatement {};
struct ContinueStatement {};

struct Macro {
    struct Parameter {
        std::string name;
        std::optional<Expression> otherwise;
    };
    std::string name;
    std::vector<Parameter> parameters;
    Body body;
};

struct Statement {
    int line;
    std::variant<DataStatement, OutputStatement, IfStatement, ForStatement, SetStatement, SetBlockStatement,
                 FilterStatement, WithStatement, GenerationStatement, BreakStatement, ContinueStatement, Macro>
        what;
};

}  // namespace chaos::text
