#include "base/words.h"
#include "text/template_builtins.h"
#include "text/template_strings.h"
#include "text/utf8.h"

#include <algorithm>

namespace chaos::text {
namespace {

using Judge = Result<bool> (*)(const Value& input, const Values& arguments, Budget& budget);

struct Test {
    std::string_view name;
    std::size_t argument_count;
    Judge judge;
};

template <bool (*Holds)(const Value&)>
Result<bool> plain(const Value& input, const Values&, Budget&) {
    return Holds(input);
}

bool is_defined(const Value& value) {
    return !value.is_undefined();
}
bool is_undefined(const Value& value) {
    return value.is_undefined();
}
bool is_none(const Value& value) {
    return value.is_none();
}
bool is_text(const Value& value) {
    return value.as_text() != nullptr;
}
bool is_mapping(const Value& value) {
    return value.as_mapping() != nullptr;
}
bool is_boolean(const Value& value) {
    return value.as<bool>() != nullptr;
}
bool is_exactly_true(const Value& value) {
    return is_boolean(value) && *value.as<bool>();
}
bool is_exactly_false(const Value& value) {
    return is_boolean(value) && !*value.as<bool>();
}
bool is_integer(const Value& value) {
    return value.as<std::int64_t>() != nullptr;
}
bool is_float(const Value& value) {
    return value.as<double>() != nullptr;
}
bool is_callable(const Value& value) {
    return value.as<Builtin>() != nullptr || value.as<const Macro*>() != nullptr || value.is_undefined();
}
// An undefined value is an empty sequence.
bool is_iterable(const Value& value) {
    return value.is_undefined() || is_text(value) || is_mapping(value) || value.as_sequence() != nullptr ||
           value.as<std::shared_ptr<const LoopState>>() != nullptr;
}
bool is_sequence(const Value& value) {
    const Sequence* sequence = value.as_sequence();
    if (sequence == nullptr) return value.is_undefined() || is_text(value) || is_mapping(value);
    return sequence->kind == Sequence::Kind::list || sequence->kind == Sequence::Kind::tuple;
}

Result<bool> has_case(const Value& input, Budget& budget, std::string (*map)(std::string_view),
                      std::string (*other)(std::string_view)) {
    CHAOS_TRY(const std::string text, text_of(input, budget));
    return map(text) == text && other(text) != text;
}

Result<bool> leaves(const Value& input, const Value& divisor, std::int64_t rest, Budget& budget) {
    if (!is_number(input) || !is_number(divisor)) return misuse(is_number(input) ? divisor : input, "divided");
    CHAOS_TRY(const Value remainder, calculate('%', input, divisor, budget));
    return equal(remainder, Value(rest), budget);
}

Result<bool> is_divisible(const Value& input, const Values& arguments, Budget& budget) {
    return leaves(input, arguments[0], 0, budget);
}

// Python's `is`: identity, which for constants and texts of a template comes down to this.
Result<bool> is_same(const Value& input, const Values& arguments, Budget& budget) {
    if (input.content().index() != arguments[0].content().index()) return false;
    return equal(input, arguments[0], budget);
}

Result<bool> equals(const Value& input, const Values& arguments, Budget& budget) {
    return equal(input, arguments[0], budget);
}

Result<bool> differs(const Value& input, const Values& arguments, Budget& budget) {
    CHAOS_TRY(const bool same, equal(input, arguments[0], budget));
    return !same;
}

template <bool (*Holds)(int)>
Result<bool> ordered(const Value& input, const Values& arguments, Budget& budget) {
    CHAOS_TRY(const int order, compare(input, arguments[0], budget));
    return Holds(order);
}

constexpr bool below(int order) {
    return order < 0;
}
constexpr bool not_above(int order) {
    return order <= 0;
}
constexpr bool above(int order) {
    return order > 0;
}
constexpr bool not_below(int order) {
    return order >= 0;
}

constexpr Test tests[] = {
    {"boolean", 0, plain<is_boolean>},
    {"callable", 0, plain<is_callable>},
    {"defined", 0, plain<is_defined>},
    {"divisibleby", 1, is_divisible},
    {"eq", 1, equals},
    {"==", 1, equals},
    {"equalto", 1, equals},
    {"even", 0,
     [](const Value& input, const Values&, Budget& budget) {
         return leaves(input, Value(std::int64_t{2}), 0, budget);
     }},
    {"false", 0, plain<is_exactly_false>},
    {"float", 0, plain<is_float>},
    {"ge", 1, ordered<not_below>},
    {">=", 1, ordered<not_below>},
    {"gt", 1, ordered<above>},
    {">", 1, ordered<above>},
    {"greaterthan", 1, ordered<above>},
    {"in", 1,
     [](const Value& input, const Values& arguments, Budget& budget) { return contains(arguments[0], input, budget); }},
    {"integer", 0, plain<is_integer>},
    {"iterable", 0, plain<is_iterable>},
    {"le", 1, ordered<not_above>},
    {"<=", 1, ordered<not_above>},
    {"lessthan", 1, ordered<below>},
    {"lower", 0,
     [](const Value& input, const Values&, Budget& budget) { return has_case(input, budget, lower, upper); }},
    {"lt", 1, ordered<below>},
    {"<", 1, ordered<below>},
    {"mapping", 0, plain<is_mapping>},
    {"ne", 1, differs},
    {"!=", 1, differs},
    {"none", 0, plain<is_none>},
    {"number", 0, plain<is_number>},
    {"odd", 0,
     [](const Value& input, const Values&, Budget& budget) {
         return leaves(input, Value(std::int64_t{2}), 1, budget);
     }},
    {"sameas", 1, is_same},
    {"sequence", 0, plain<is_sequence>},
    {"string", 0, plain<is_text>},
    {"true", 0, plain<is_exactly_true>},
    {"undefined", 0, plain<is_undefined>},
    {"upper", 0,
     [](const Value& input, const Values&, Budget& budget) { return has_case(input, budget, upper, lower); }},
};

}  // namespace

Result<bool> apply_test(std::string_view name, const Value& input, const Arguments& arguments, Budget& budget) {
    const auto* test = std::ranges::find(tests, name, &Test::name);
    if (test == std::end(tests)) return Error{"the test '" + printable(name) + "' is not supported"};
    if (arguments.positional.size() != test->argument_count || !arguments.named.empty()) {
        return Error{"the test '" + std::string(name) + "' takes " + std::to_string(test->argument_count) +
                     " arguments, without names"};
    }
    return test->judge(input, arguments.positional, budget);
}

}  // namespace chaos::text
