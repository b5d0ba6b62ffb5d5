// What Python's operators do to numbers, texts and lists.
#include "text/template_builtins.h"
#include "text/template_strings.h"

#include <cmath>

namespace chaos::text {
namespace {

Error too_large() {
    return Error{"a number needs more than 64 bits"};
}

Error by_zero() {
    return Error{"a number is divided by zero"};
}

Error unfit(std::string_view sign, const Value& a, const Value& b) {
    for (const Value* value : {&a, &b})
        if (value->is_undefined()) return misuse(*value, "calculated with");
    return Error{"values of the types " + std::string(type_of(a)) + " and " + std::string(type_of(b)) +
                 " cannot be combined by '" + std::string(sign) + "'"};
}

Result<Value> join_texts(const String& a, const String& b, Budget& budget) {
    CHAOS_CHECK(budget.spend_bytes(a.text->size() + b.text->size()));
    const bool is_markup = a.is_markup || b.is_markup;
    const auto part = [&](const String& text) {
        return is_markup && !text.is_markup ? escape_html(*text.text) : *text.text;
    };
    return Value(String{std::make_shared<const std::string>(part(a) + part(b)), is_markup});
}

bool is_list(const Value& value) {
    const Sequence* sequence = value.as_sequence();
    return sequence != nullptr && (sequence->kind == Sequence::Kind::list || sequence->kind == Sequence::Kind::tuple);
}

Result<Value> repeat(const Value& value, std::int64_t times, Budget& budget) {
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
    if (const std::string* text = value.as_text()) {
        if (count > 0 && text->size() > max_rendered_bytes / count)
            return budget.spend_bytes(max_rendered_bytes + 1).error();
        CHAOS_CHECK(budget.spend_bytes(text->size() * count));
        std::string result;
        for (std::size_t index = 0; index < count && !text->empty(); ++index) result += *text;
        return Value::text(std::move(result));
    }
    const Sequence& sequence = *value.as_sequence();
    if (count > 0 && sequence.items.size() > max_template_steps / count) {
        return budget.spend(max_template_steps + 1).error();
    }
    CHAOS_CHECK(budget.spend_items(sequence.items.size() * count));
    Values items;
    for (std::size_t index = 0; index < count && !sequence.items.empty(); ++index) {
        items.insert(items.end(), sequence.items.begin(), sequence.items.end());
    }
    return make_sequence(sequence.kind, std::move(items));
}

Result<Value> calculate_whole(char sign, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    bool overflows = false;
    if (sign == '+') overflows = __builtin_add_overflow(a, b, &result);
    if (sign == '-') overflows = __builtin_sub_overflow(a, b, &result);
    if (sign == '*') overflows = __builtin_mul_overflow(a, b, &result);
    if (overflows) return too_large();
    return Value(result);
}

Result<Value> remainder(const Value& a, const Value& b) {
    if (as_double(b) == 0) return by_zero();
    const std::int64_t* whole_a = as_integer(a);
    const std::int64_t* whole_b = as_integer(b);
    if (whole_a != nullptr && whole_b != nullptr) {
        if (*whole_b == -1) return Value(std::int64_t{0});
        const std::int64_t rest = *whole_a % *whole_b;
        // Python's remainder has the sign of the divisor.
        return Value(rest != 0 && (rest < 0) != (*whole_b < 0) ? rest + *whole_b : rest);
    }
    const double divisor = as_double(b);
    double rest = std::fmod(as_double(a), divisor);
    if (rest != 0 && (rest < 0) != (divisor < 0)) rest += divisor;
    return Value(rest == 0 ? std::copysign(0.0, divisor) : rest);
}

}  // namespace

Result<Value> calculate(char sign, const Value& a, const Value& b, Budget& budget) {
    const std::int64_t* whole_a = as_integer(a);
    const std::int64_t* whole_b = as_integer(b);
    if (is_number(a) && is_number(b)) {
        if (sign == '%') return remainder(a, b);
        if (sign == '/') {
            if (as_double(b) == 0) return by_zero();
            return Value(as_double(a) / as_double(b));
        }
        if (whole_a != nullptr && whole_b != nullptr) return calculate_whole(sign, *whole_a, *whole_b);
        const double x = as_double(a);
        const double y = as_double(b);
        return Value(sign == '+' ? x + y : sign == '-' ? x - y : x * y);
    }
    if (sign == '+' && a.as<String>() != nullptr && b.as<String>() != nullptr) {
        return join_texts(*a.as<String>(), *b.as<String>(), budget);
    }
    if (sign == '+' && is_list(a) && is_list(b) && a.as_sequence()->kind == b.as_sequence()->kind) {
        const Values& x = a.as_sequence()->items;
        const Values& y = b.as_sequence()->items;
        CHAOS_CHECK(budget.spend_items(x.size() + y.size()));
        Values items = x;
        items.insert(items.end(), y.begin(), y.end());
        return make_sequence(a.as_sequence()->kind, std::move(items));
    }
    if (sign == '*' && (a.as_text() != nullptr || is_list(a)) && whole_b != nullptr) return repeat(a, *whole_b, budget);
    if (sign == '*' && (b.as_text() != nullptr || is_list(b)) && whole_a != nullptr) return repeat(b, *whole_a, budget);
    if (sign == '%' && a.as_text() != nullptr) return Error{"a text as a format of '%' is not supported"};
    return unfit(std::string_view(&sign, 1), a, b);
}

Result<Value> divide_down(const Value& a, const Value& b) {
    if (!is_number(a) || !is_number(b)) return unfit("//", a, b);
    if (as_double(b) == 0) return by_zero();
    const std::int64_t* whole_a = as_integer(a);
    const std::int64_t* whole_b = as_integer(b);
    if (whole_a == nullptr || whole_b == nullptr) return Value(std::floor(as_double(a) / as_double(b)));
    if (*whole_b == -1) return calculate_whole('-', 0, *whole_a);
    const std::int64_t quotient = *whole_a / *whole_b;
    const bool is_rounded_up = *whole_a % *whole_b != 0 && (*whole_a < 0) != (*whole_b < 0);
    return Value(is_rounded_up ? quotient - 1 : quotient);
}

Result<Value> power(const Value& a, const Value& b) {
    if (!is_number(a) || !is_number(b)) return unfit("**", a, b);
    const std::int64_t* base = as_integer(a);
    const std::int64_t* exponent = as_integer(b);
    if (base == nullptr || exponent == nullptr || *exponent < 0) {
        const double result = std::pow(as_double(a), as_double(b));
        if (!std::isfinite(result)) return Error{"a power is no number"};
        return Value(result);
    }
    // With 0, 1 and -1 only whether the exponent is odd matters; with others it must be small.
    const bool is_trivial = *base >= -1 && *base <= 1;
    if (!is_trivial && *exponent > 63) return too_large();
    const std::int64_t times = is_trivial && *exponent > 1 ? 2 - *exponent % 2 : *exponent;
    Value result(std::int64_t{1});
    for (std::int64_t index = 0; index < times; ++index) {
        CHAOS_TRY(result, calculate_whole('*', *as_integer(result), *base));
    }
    return result;
}

}  // namespace chaos::text
