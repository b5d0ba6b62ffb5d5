// Renders a parsed template.
#pragma once

#include "base/result.h"
#include "text/template_builtins.h"
#include "text/template_syntax.h"

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chaos::text {

// For one rendering. Errors begin with "line N: ".
class TemplateMachine {
public:
    explicit TemplateMachine(const std::tm& now) : now_(now) {}

    // Before run(). `name` must stay where it is.
    void set(std::string_view name, Value value) { root_.set(name, std::move(value)); }
    [[nodiscard]] Result<std::string> run(const Body& body);

private:
    // The variables of a loop, a macro or a block; those around it are seen, but not changed.
    struct Scope {
        const Scope* parent = nullptr;
        std::vector<std::pair<std::string_view, Value>> variables;

        void set(std::string_view name, Value value);
        [[nodiscard]] const Value* find(std::string_view name) const;
    };
    // How the rest of a loop's body goes on.
    enum class Flow { on, next_item, loop_end };
    class Nesting;

    Result<Flow> execute(const Body& body, Scope& scope);
    Result<Flow> execute(const Statement& statement, Scope& scope);
    Result<Flow> run_statement(const DataStatement& statement, int line, Scope& scope);
    Result<Flow> run_statement(const OutputStatement& statement, int line, Scope& scope);
    Result<Flow> run_statement(const IfStatement& statement, int line, Scope& scope);
    Result<Flow> run_statement(const ForStatement& statement, int line, Scope& scope);
    Result<Flow> run_statement(const SetStatement& statement, int line, Scope& scope);
    Result<Flow> run_statement(const SetBlockStatement& statement, int line, Scope& scope);
    Result<Flow> run_statement(const FilterStatement& statement, int line, Scope& scope);
    Result<Flow> run_statement(const WithStatement& statement, int line, Scope& scope);
    Result<Flow> run_statement(const GenerationStatement& statement, int line, Scope& scope);
    Result<Flow> run_statement(const BreakStatement& statement, int line, Scope& scope);
    Result<Flow> run_statement(const ContinueStatement& statement, int line, Scope& scope);
    Result<Flow> run_statement(const Macro& macro, int line, Scope& scope);
    // What the body of a block renders to, on its own.
    Result<std::string> render(const Body& body, const Scope& outer);
    Result<Values> items_to_go_through(const ForStatement& statement, int line, Scope& scope);
    Result<void> assign(const Target& target, Value value, int line, Scope& scope);

    Result<Value> evaluate(const Expression& expression, const Scope& scope);
    Result<Value> value_of(const ConstantExpression& what, int line, const Scope& scope);
    Result<Value> value_of(const NameExpression& what, int line, const Scope& scope);
    Result<Value> value_of(const SequenceExpression& what, int line, const Scope& scope);
    Result<Value> value_of(const MappingExpression& what, int line, const Scope& scope);
    Result<Value> value_of(const UnaryExpression& what, int line, const Scope& scope);
    Result<Value> value_of(const BinaryExpression& what, int line, const Scope& scope);
    Result<Value> value_of(const CompareExpression& what, int line, const Scope& scope);
    Result<Value> value_of(const ConditionalExpression& what, int line, const Scope& scope);
    Result<Value> value_of(const AttributeExpression& what, int line, const Scope& scope);
    Result<Value> value_of(const ItemExpression& what, int line, const Scope& scope);
    Result<Value> value_of(const SliceExpression& what, int line, const Scope& scope);
    Result<Value> value_of(const CallExpression& what, int line, const Scope& scope);
    Result<Value> value_of(const FilterExpression& what, int line, const Scope& scope);
    Result<Value> value_of(const TestExpression& what, int line, const Scope& scope);
    Result<bool> holds(Comparison comparison, const Value& a, const Value& b);
    // The text of a block after its filters.
    Result<Value> filtered(const Expression& filters, Value text, const Scope& scope);
    Result<Arguments> evaluate(const CallArguments& arguments, const Scope& scope);

    Result<Value> call(const Macro& macro, const Arguments& arguments, int line);
    Result<Value> call_function(std::string_view name, const Arguments& arguments);
    Result<Value> make_namespace(const Arguments& arguments);
    Result<Value> make_range(const Arguments& arguments);
    Result<Value> tell_time(const Arguments& arguments);

    std::tm now_;
    Budget budget_;
    int depth_ = 0;
    std::string* out_ = nullptr;
    Value block_text_;  // what the first filter of a block is given
    Scope root_;
    std::vector<std::unique_ptr<Namespace>> namespaces_;
};

}  // namespace chaos::text
