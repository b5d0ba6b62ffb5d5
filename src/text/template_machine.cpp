#include "text/template_machine.h"

#include "base/words.h"

#include <algorithm>
#include <array>

namespace chaos::text {
namespace {

constexpr std::size_t max_range = 100'000;

template <class T>
Result<T> placed(int line, Result<T> result) {
    if (result) return result;
    return Error{"line " + std::to_string(line) + ": " + result.error().message};
}

Result<std::optional<std::int64_t>> bound_of(const Value& value) {
    if (value.is_none()) return std::optional<std::int64_t>();
    if (const std::int64_t* whole = as_integer(value)) return std::optional(*whole);
    return misuse(value, "a bound of a slice");
}

constexpr std::string_view functions[] = {"dict", "namespace", "raise_exception", "range", "strftime_now"};

}  // namespace

// Keeps the rendering from going too deep.
class TemplateMachine::Nesting {
public:
    explicit Nesting(TemplateMachine& machine) : machine_(machine) { ++machine_.depth_; }
    ~Nesting() { --machine_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

    // The price of one more level, and of being there at all.
    [[nodiscard]] Result<void> pay() const {
        if (machine_.depth_ > max_rendering_depth) {
            return Error{"the rendering is nested more than " + std::to_string(max_rendering_depth) + " deep"};
        }
        return machine_.budget_.spend(1);
    }

private:
    TemplateMachine& machine_;
};

void TemplateMachine::Scope::set(std::string_view name, Value value) {
    for (auto& [known, old] : variables) {
        if (known != name) continue;
        old = std::move(value);
        return;
    }
    variables.emplace_back(name, std::move(value));
}

const Value* TemplateMachine::Scope::find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
        for (const auto& [known, value] : scope->variables)
            if (known == name) return &value;
    }
    return nullptr;
}

Result<std::string> TemplateMachine::run(const Body& body) {
    std::string out;
    out_ = &out;
    CHAOS_CHECK(execute(body, root_));
    return out;
}

Result<TemplateMachine::Flow> TemplateMachine::execute(const Body& body, Scope& scope) {
    for (const Statement& statement : body) {
        CHAOS_TRY(const Flow flow, execute(statement, scope));
        if (flow != Flow::on) return flow;
    }
    return Flow::on;
}

Result<TemplateMachine::Flow> TemplateMachine::execute(const Statement& statement, Scope& scope) {
    const Nesting nesting(*this);
    CHAOS_CHECK(placed(statement.line, nesting.pay()));
    return std::visit([&](const auto& what) { return run_statement(what, statement.line, scope); }, statement.what);
}

Result<TemplateMachine::Flow> TemplateMachine::run_statement(const DataStatement& statement, int line, Scope&) {
    CHAOS_CHECK(placed(
        line, budget_.spend_bytes(out_->size() + statement.text.size() > max_rendered_bytes ? max_rendered_bytes + 1
                                                                                            : statement.text.size())));
    *out_ += statement.text;
    return Flow::on;
}

Result<TemplateMachine::Flow> TemplateMachine::run_statement(const OutputStatement& statement, int line, Scope& scope) {
    CHAOS_TRY(const Value value, evaluate(statement.value, scope));
    CHAOS_CHECK(placed(line, append_text(*out_, value, budget_)));
    return Flow::on;
}

Result<TemplateMachine::Flow> TemplateMachine::run_statement(const IfStatement& statement, int, Scope& scope) {
    for (const auto& [condition, body] : statement.branches) {
        CHAOS_TRY(const Value value, evaluate(condition, scope));
        if (is_true(value)) return execute(body, scope);
    }
    return execute(statement.otherwise, scope);
}

Result<Values> TemplateMachine::items_to_go_through(const ForStatement& statement, int line, Scope& scope) {
    CHAOS_TRY(const Value value, evaluate(statement.items, scope));
    CHAOS_TRY(Values items, placed(line, items_of(value, budget_)));
    if (!statement.condition) return items;
    Values chosen;
    for (Value& item : items) {
        Scope inner{&scope, {}};
        CHAOS_CHECK(assign(statement.target, item, line, inner));
        CHAOS_TRY(const Value holds, evaluate(*statement.condition, inner));
        if (is_true(holds)) chosen.push_back(std::move(item));
    }
    return chosen;
}

Result<TemplateMachine::Flow> TemplateMachine::run_statement(const ForStatement& statement, int line, Scope& scope) {
    CHAOS_TRY(Values items, items_to_go_through(statement, line, scope));
    if (items.empty()) {
        Scope inner{&scope, {}};
        return execute(statement.otherwise, inner);
    }
    const auto loop = std::make_shared<LoopState>(LoopState{std::move(items), 0});
    for (; loop->index < loop->items.size(); ++loop->index) {
        Scope inner{&scope, {}};
        inner.set("loop", Value(std::shared_ptr<const LoopState>(loop)));
        CHAOS_CHECK(assign(statement.target, loop->items[loop->index], line, inner));
        CHAOS_TRY(const Flow flow, execute(statement.body, inner));
        if (flow == Flow::loop_end) break;
    }
    return Flow::on;
}

Result<TemplateMachine::Flow> TemplateMachine::run_statement(const SetStatement& statement, int line, Scope& scope) {
    CHAOS_TRY(Value value, evaluate(statement.value, scope));
    CHAOS_CHECK(assign(statement.target, std::move(value), line, scope));
    return Flow::on;
}

Result<TemplateMachine::Flow> TemplateMachine::run_statement(const SetBlockStatement& statement, int line,
                                                             Scope& scope) {
    CHAOS_TRY(std::string text, render(statement.body, scope));
    Value value = Value::text(std::move(text));
    if (statement.filter) {
        CHAOS_TRY(value, filtered(*statement.filter, std::move(value), scope));
    }
    CHAOS_CHECK(assign(statement.target, std::move(value), line, scope));
    return Flow::on;
}

Result<TemplateMachine::Flow> TemplateMachine::run_statement(const FilterStatement& statement, int line, Scope& scope) {
    CHAOS_TRY(std::string text, render(statement.body, scope));
    CHAOS_TRY(const Value value, filtered(statement.filter, Value::text(std::move(text)), scope));
    CHAOS_CHECK(placed(line, append_text(*out_, value, budget_)));
    return Flow::on;
}

Result<TemplateMachine::Flow> TemplateMachine::run_statement(const WithStatement& statement, int line, Scope& scope) {
    Scope inner{&scope, {}};
    for (const auto& [target, expression] : statement.values) {
        // The values are those from outside, whatever the names before them were set to.
        CHAOS_TRY(Value value, evaluate(expression, scope));
        CHAOS_CHECK(assign(target, std::move(value), line, inner));
    }
    return execute(statement.body, inner);
}

Result<TemplateMachine::Flow> TemplateMachine::run_statement(const GenerationStatement& statement, int, Scope& scope) {
    Scope inner{&scope, {}};
    return execute(statement.body, inner);
}

Result<TemplateMachine::Flow> TemplateMachine::run_statement(const BreakStatement&, int, Scope&) {
    return Flow::loop_end;
}

Result<TemplateMachine::Flow> TemplateMachine::run_statement(const ContinueStatement&, int, Scope&) {
    return Flow::next_item;
}

Result<TemplateMachine::Flow> TemplateMachine::run_statement(const Macro& macro, int, Scope& scope) {
    scope.set(macro.name, Value(&macro));
    return Flow::on;
}

Result<std::string> TemplateMachine::render(const Body& body, const Scope& outer) {
    std::string text;
    std::string* const previous = std::exchange(out_, &text);
    Scope inner{&outer, {}};
    const Result<Flow> flow = execute(body, inner);
    out_ = previous;
    if (!flow) return flow.error();
    return text;
}

Result<void> TemplateMachine::assign(const Target& target, Value value, int line, Scope& scope) {
    if (!target.parts.empty()) {
        CHAOS_TRY(const Values items, placed(line, items_of(value, budget_)));
        if (items.size() != target.parts.size()) {
            return Error{"line " + std::to_string(line) + ": " + std::to_string(items.size()) +
                         " values are to be given to " + std::to_string(target.parts.size()) + " names"};
        }
        for (std::size_t index = 0; index < items.size(); ++index) {
            CHAOS_CHECK(assign(target.parts[index], items[index], line, scope));
        }
        return {};
    }
    if (target.member.empty()) {
        scope.set(target.name, std::move(value));
        return {};
    }
    const Value* object = scope.find(target.name);
    const auto* space = object == nullptr ? nullptr : object->as<Namespace*>();
    if (space == nullptr) {
        return Error{"line " + std::to_string(line) + ": '" + target.name + "' is no namespace, so '" + target.member +
                     "' of it cannot be set"};
    }
    CHAOS_CHECK(placed(line, budget_.spend(1 + (*space)->members.size() / 8)));
    (*space)->set(target.member, std::move(value));
    return {};
}

Result<Value> TemplateMachine::evaluate(const Expression& expression, const Scope& scope) {
    const Nesting nesting(*this);
    CHAOS_CHECK(placed(expression.line, nesting.pay()));
    return std::visit([&](const auto& what) { return value_of(what, expression.line, scope); }, expression.what);
}

Result<Value> TemplateMachine::value_of(const ConstantExpression& what, int, const Scope&) {
    return what.value;
}

Result<Value> TemplateMachine::value_of(const NameExpression& what, int, const Scope& scope) {
    if (const Value* value = scope.find(what.name)) return *value;
    const auto* function = std::ranges::find(functions, what.name);
    if (function != std::end(functions)) return Value(Builtin{*function});
    return Value::undefined("'" + what.name + "' is undefined");
}

Result<Value> TemplateMachine::value_of(const SequenceExpression& what, int line, const Scope& scope) {
    Values items;
    for (const Expression& expression : what.items) {
        CHAOS_TRY(Value item, evaluate(expression, scope));
        items.push_back(std::move(item));
    }
    return placed(line, make_sequence(what.kind, std::move(items)));
}

Result<Value> TemplateMachine::value_of(const MappingExpression& what, int line, const Scope& scope) {
    Mapping mapping{{}, 0};
    for (const auto& [key_expression, expression] : what.entries) {
        CHAOS_TRY(Value key, evaluate(key_expression, scope));
        CHAOS_TRY(Value value, evaluate(expression, scope));
        CHAOS_CHECK(placed(line, budget_.spend(1 + mapping.entries.size() / 8)));
        const auto known = std::ranges::find_if(
            mapping.entries, [&, found = mapping.find(key)](const auto& entry) { return &entry.second == found; });
        if (known != mapping.entries.end()) {
            known->second = std::move(value);
        } else {
            mapping.entries.emplace_back(std::move(key), std::move(value));
        }
    }
    return placed(line, make_mapping(std::move(mapping.entries)));
}

Result<Value> TemplateMachine::value_of(const UnaryExpression& what, int line, const Scope& scope) {
    CHAOS_TRY(const Value operand, evaluate(*what.operand, scope));
    if (what.sign == '!') return Value(!is_true(operand));
    if (!is_number(operand)) return placed(line, Result<Value>(misuse(operand, "given a sign")));
    if (operand.as<double>() != nullptr) return Value(what.sign == '-' ? -as_double(operand) : as_double(operand));
    const Value zero(std::int64_t{0});
    return placed(line, calculate(what.sign, zero, operand, budget_));
}

Result<Value> TemplateMachine::value_of(const BinaryExpression& what, int line, const Scope& scope) {
    CHAOS_TRY(Value left, evaluate(*what.left, scope));
    if (what.what == Operator::logical_and && !is_true(left)) return left;
    if (what.what == Operator::logical_or && is_true(left)) return left;
    CHAOS_TRY(Value right, evaluate(*what.right, scope));
    switch (what.what) {
        case Operator::logical_and:
        case Operator::logical_or:
            return right;
        case Operator::add:
            return placed(line, calculate('+', left, right, budget_));
        case Operator::subtract:
            return placed(line, calculate('-', left, right, budget_));
        case Operator::multiply:
            return placed(line, calculate('*', left, right, budget_));
        case Operator::divide:
            return placed(line, calculate('/', left, right, budget_));
        case Operator::remainder:
            return placed(line, calculate('%', left, right, budget_));
        case Operator::divide_down:
            return placed(line, divide_down(left, right));
        case Operator::power:
            return placed(line, power(left, right));
        case Operator::join:
            break;
    }
    std::string text;
    CHAOS_CHECK(placed(line, append_text(text, left, budget_)));
    CHAOS_CHECK(placed(line, append_text(text, right, budget_)));
    return Value::text(std::move(text));
}

Result<Value> TemplateMachine::value_of(const CompareExpression& what, int line, const Scope& scope) {
    CHAOS_TRY(Value left, evaluate(*what.first, scope));
    for (const auto& [comparison, expression] : what.others) {
        CHAOS_TRY(Value right, evaluate(expression, scope));
        CHAOS_TRY(const bool is_so, placed(line, holds(comparison, left, right)));
        if (!is_so) return Value(false);
        left = std::move(right);
    }
    return Value(true);
}

Result<bool> TemplateMachine::holds(Comparison comparison, const Value& a, const Value& b) {
    if (comparison == Comparison::equal || comparison == Comparison::unequal) {
        CHAOS_TRY(const bool same, equal(a, b, budget_));
        return same == (comparison == Comparison::equal);
    }
    if (comparison == Comparison::in || comparison == Comparison::not_in) {
        CHAOS_TRY(const bool is_in, contains(b, a, budget_));
        return is_in == (comparison == Comparison::in);
    }
    CHAOS_TRY(const int order, compare(a, b, budget_));
    if (comparison == Comparison::less) return order < 0;
    if (comparison == Comparison::less_or_equal) return order <= 0;
    if (comparison == Comparison::greater) return order > 0;
    return order >= 0;
}

Result<Value> TemplateMachine::value_of(const ConditionalExpression& what, int line, const Scope& scope) {
    CHAOS_TRY(const Value condition, evaluate(*what.condition, scope));
    if (is_true(condition)) return evaluate(*what.then, scope);
    if (what.otherwise != nullptr) return evaluate(*what.otherwise, scope);
    return Value::undefined("the inline if of line " + std::to_string(line) + " does not hold and has no else");
}

Result<Value> TemplateMachine::value_of(const AttributeExpression& what, int line, const Scope& scope) {
    CHAOS_TRY(const Value object, evaluate(*what.object, scope));
    return placed(line, attribute_of(object, what.name, budget_));
}

Result<Value> TemplateMachine::value_of(const ItemExpression& what, int line, const Scope& scope) {
    CHAOS_TRY(const Value object, evaluate(*what.object, scope));
    CHAOS_TRY(const Value key, evaluate(*what.key, scope));
    return placed(line, item_of(object, key, budget_));
}

Result<Value> TemplateMachine::value_of(const SliceExpression& what, int line, const Scope& scope) {
    CHAOS_TRY(const Value object, evaluate(*what.object, scope));
    std::array<std::optional<std::int64_t>, 3> bounds;
    const std::array<const Expression*, 3> expressions = {what.start.get(), what.stop.get(), what.step.get()};
    for (std::size_t index = 0; index < bounds.size(); ++index) {
        if (expressions[index] == nullptr) continue;
        CHAOS_TRY(const Value value, evaluate(*expressions[index], scope));
        CHAOS_TRY(bounds[index], placed(line, bound_of(value)));
    }
    return placed(line, slice_of(object, bounds[0], bounds[1], bounds[2].value_or(1), budget_));
}

Result<Value> TemplateMachine::value_of(const CallExpression& what, int line, const Scope& scope) {
    const auto* attribute = std::get_if<AttributeExpression>(&what.callee->what);
    Value object;
    Value callee;
    if (attribute != nullptr) {
        CHAOS_TRY(object, evaluate(*attribute->object, scope));
        CHAOS_TRY(callee, placed(line, attribute_of(object, attribute->name, budget_)));
    } else {
        CHAOS_TRY(callee, evaluate(*what.callee, scope));
    }
    CHAOS_TRY(const Arguments arguments, evaluate(what.arguments, scope));
    if (const auto* macro = callee.as<const Macro*>()) return call(**macro, arguments, line);
    const auto* builtin = callee.as<Builtin>();
    if (builtin == nullptr) return placed(line, Result<Value>(misuse(callee, "called")));
    if (attribute != nullptr && !object.as<Namespace*>()) {
        return placed(line, call_method(object, builtin->name, arguments, budget_));
    }
    return placed(line, call_function(builtin->name, arguments));
}

Result<Value> TemplateMachine::value_of(const FilterExpression& what, int line, const Scope& scope) {
    Value input = block_text_;
    if (what.input != nullptr) {
        CHAOS_TRY(input, evaluate(*what.input, scope));
    }
    CHAOS_TRY(const Arguments arguments, evaluate(what.arguments, scope));
    return placed(line, apply_filter(what.name, input, arguments, budget_));
}

Result<Value> TemplateMachine::filtered(const Expression& filters, Value text, const Scope& scope) {
    Value outer = std::exchange(block_text_, std::move(text));
    Result<Value> result = evaluate(filters, scope);
    block_text_ = std::move(outer);
    return result;
}

Result<Value> TemplateMachine::value_of(const TestExpression& what, int line, const Scope& scope) {
    CHAOS_TRY(const Value input, evaluate(*what.input, scope));
    CHAOS_TRY(const Arguments arguments, evaluate(what.arguments, scope));
    CHAOS_TRY(const bool is_so, placed(line, apply_test(what.name, input, arguments, budget_)));
    return Value(is_so);
}

Result<Arguments> TemplateMachine::evaluate(const CallArguments& arguments, const Scope& scope) {
    Arguments result;
    for (const Expression& expression : arguments.positional) {
        CHAOS_TRY(Value value, evaluate(expression, scope));
        result.positional.push_back(std::move(value));
    }
    for (const auto& [name, expression] : arguments.named) {
        CHAOS_TRY(Value value, evaluate(expression, scope));
        result.named.emplace_back(name, std::move(value));
    }
    return result;
}

Result<Value> TemplateMachine::call(const Macro& macro, const Arguments& arguments, int line) {
    const auto error = [&](const std::string& what) {
        return Error{"line " + std::to_string(line) + ": the macro '" + macro.name + "' " + what};
    };
    const auto& parameters = macro.parameters;
    if (arguments.positional.size() > parameters.size()) {
        return error("takes " + std::to_string(parameters.size()) + " arguments, not " +
                     std::to_string(arguments.positional.size()));
    }
    Scope inner{&root_, {}};
    for (std::size_t index = 0; index < arguments.positional.size(); ++index) {
        inner.set(parameters[index].name, arguments.positional[index]);
    }
    for (const auto& [name, value] : arguments.named) {
        const auto parameter = std::ranges::find(parameters, name, &Macro::Parameter::name);
        if (parameter == parameters.end()) return error("has no argument '" + std::string(name) + "'");
        const auto place = static_cast<std::size_t>(parameter - parameters.begin());
        if (place < arguments.positional.size()) return error("got its argument '" + std::string(name) + "' twice");
        inner.set(parameter->name, value);
    }
    for (const Macro::Parameter& parameter : parameters) {
        const bool is_given = std::ranges::any_of(
            inner.variables, [&](const auto& variable) { return variable.first == parameter.name; });
        if (is_given) continue;
        Value value = Value::undefined("parameter '" + parameter.name + "' was not provided");
        if (parameter.otherwise) {
            CHAOS_TRY(value, evaluate(*parameter.otherwise, inner));
        }
        inner.set(parameter.name, std::move(value));
    }
    CHAOS_TRY(std::string text, render(macro.body, inner));
    return Value::text(std::move(text));
}

Result<Value> TemplateMachine::call_function(std::string_view name, const Arguments& arguments) {
    if (name == "namespace") return make_namespace(arguments);
    if (name == "range") return make_range(arguments);
    if (name == "strftime_now") return tell_time(arguments);
    if (name == "raise_exception") {
        CHAOS_TRY(const auto bound, bind<1>(arguments, {"message"}));
        CHAOS_TRY(const std::string message, text_of(bound[0] ? *bound[0] : Value(), budget_));
        return Error{"the template refuses this: " + message};
    }
    if (name == "dict" && arguments.positional.empty()) {
        std::vector<std::pair<Value, Value>> entries;
        entries.reserve(arguments.named.size());
        for (const auto& [key, value] : arguments.named) entries.emplace_back(Value::text(std::string(key)), value);
        return make_mapping(std::move(entries));
    }
    return Error{"'" + printable(name) + "' cannot be called so"};
}

Result<Value> TemplateMachine::make_namespace(const Arguments& arguments) {
    auto space = std::make_unique<Namespace>();
    if (arguments.positional.size() > 1) return Error{"a namespace is made of at most one mapping"};
    if (!arguments.positional.empty()) {
        const Mapping* mapping = arguments.positional.front().as_mapping();
        if (mapping == nullptr) return misuse(arguments.positional.front(), "made a namespace");
        CHAOS_CHECK(budget_.spend(mapping->entries.size() * (1 + mapping->entries.size() / 8)));
        for (const auto& [key, value] : mapping->entries) {
            CHAOS_TRY(const std::string name, text_argument(key, "name"));
            space->set(name, value);
        }
    }
    for (const auto& [name, value] : arguments.named) space->set(name, value);
    namespaces_.push_back(std::move(space));
    return Value(namespaces_.back().get());
}

Result<Value> TemplateMachine::make_range(const Arguments& arguments) {
    std::vector<std::int64_t> bounds;
    for (const Value& value : arguments.positional) {
        CHAOS_TRY(const std::int64_t bound, integer_argument(value, "range"));
        bounds.push_back(bound);
    }
    if (bounds.empty() || bounds.size() > 3 || !arguments.named.empty()) return Error{"range takes 1 to 3 numbers"};
    std::int64_t at = bounds.size() == 1 ? 0 : bounds[0];
    const std::int64_t stop = bounds.size() == 1 ? bounds[0] : bounds[1];
    const std::int64_t step = bounds.size() == 3 ? bounds[2] : 1;
    if (step == 0) return Error{"the step of a range is zero"};
    Values items;
    while (step > 0 ? at < stop : at > stop) {
        if (items.size() == max_range) return Error{"a range has more than " + std::to_string(max_range) + " numbers"};
        items.push_back(Value(at));
        if (__builtin_add_overflow(at, step, &at)) break;
    }
    CHAOS_CHECK(budget_.spend_items(items.size()));
    return make_sequence(Sequence::Kind::list, std::move(items));
}

// The directives that mean the same to Python and to C on every machine; "%-d" leaves out leading zeros.
Result<Value> TemplateMachine::tell_time(const Arguments& arguments) {
    CHAOS_TRY(const auto bound, bind<1>(arguments, {"format"}));
    if (!bound[0]) return Error{"strftime_now needs a format"};
    CHAOS_TRY(const std::string format, text_argument(*bound[0], "format"));
    constexpr std::string_view directives = "aAbBcdHIjmMpSUwWxXyYzZ%";
    std::string result;
    for (std::size_t at = 0; at < format.size(); ++at) {
        if (format[at] != '%') {
            result += format[at];
            continue;
        }
        std::string directive = "%";
        if (format.substr(at + 1).starts_with('-')) directive += format[++at];
        const char letter = at + 1 < format.size() ? format[++at] : ' ';
        if (directives.find(letter) == std::string_view::npos) {
            return Error{"the format '%" + printable(std::string_view(&letter, 1)) + "' of a time is not supported"};
        }
        directive += letter;
        std::array<char, 128> buffer{};
        const std::size_t bytes = std::strftime(buffer.data(), buffer.size(), directive.c_str(), &now_);
        result.append(buffer.data(), bytes);
    }
    CHAOS_CHECK(budget_.spend_bytes(result.size()));
    return Value::text(std::move(result));
}

}  // namespace chaos::text
