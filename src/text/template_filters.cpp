#include "base/words.h"
#include "text/template_builtins.h"
#include "text/template_json.h"
#include "text/template_strings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace chaos::text {
namespace {

using Bound = std::optional<Value>;

bool flag_of(const Bound& argument) {
    return argument && is_true(*argument);
}

// Reads item.a.0.b for the argument "a.0.b"; without an argument, the item itself.
class Getter {
public:
    static Result<Getter> of(const Bound& attribute, Bound otherwise = std::nullopt) {
        Getter getter;
        getter.otherwise_ = std::move(otherwise);
        if (!attribute || attribute->is_none()) return getter;
        if (as_integer(*attribute) != nullptr) {
            getter.path_.push_back(*attribute);
            return getter;
        }
        CHAOS_TRY(const std::string path, text_argument(*attribute, "attribute"));
        for (const std::string_view part : split(path, ".", no_limit)) {
            std::int64_t index = 0;
            const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
            const bool is_index = !part.empty() && part.front() != '-' && parsed.ec == std::errc() &&
                                  parsed.ptr == part.data() + part.size();
            getter.path_.push_back(is_index ? Value(index) : Value::text(std::string(part)));
        }
        return getter;
    }

    Result<Value> get(Value item, Budget& budget) const {
        for (const Value& key : path_) {
            CHAOS_TRY(item, item_of(item, key, budget));
            if (item.is_undefined() && otherwise_) item = *otherwise_;
        }
        return item;
    }

private:
    Values path_;
    Bound otherwise_;
};

// What values are sorted and compared by: texts without regard to case unless asked for.
Result<Value> key_of(const Value& item, const Getter& getter, bool is_case_sensitive, Budget& budget) {
    CHAOS_TRY(Value key, getter.get(item, budget));
    if (is_case_sensitive || key.as_text() == nullptr) return key;
    CHAOS_CHECK(budget.spend_bytes(key.as_text()->size()));
    return Value::text(lower(*key.as_text()));
}

struct Keyed {
    Value key;
    Value item;
    std::size_t place = 0;  // what is equal stays in order
};

// Only keys that all have an order: numbers, or texts.
Result<Values> sorted(std::vector<Keyed> items, bool is_reversed, Budget& budget) {
    const bool are_texts = !items.empty() && items.front().key.as_text() != nullptr;
    for (const Keyed& item : items) {
        const bool fits = are_texts ? item.key.as_text() != nullptr : is_number(item.key);
        if (!fits) return Error{"only texts or only numbers can be sorted"};
        if (const auto* real = item.key.as<double>(); real != nullptr && std::isnan(*real)) {
            return Error{"nan has no order"};
        }
    }
    CHAOS_CHECK(budget.spend(8 * items.size()));
    Budget free;  // what the sort looks at was paid for
    for (std::size_t place = 0; place < items.size(); ++place) items[place].place = place;
    std::ranges::sort(items, [&](const Keyed& a, const Keyed& b) {
        const Result<int> order =
            are_texts ? Result<int>(a.key.as_text()->compare(*b.key.as_text())) : compare(a.key, b.key, free);
        const int sign = order ? *order : 0;
        if (sign == 0) return a.place < b.place;
        return is_reversed ? sign > 0 : sign < 0;
    });
    Values result;
    for (Keyed& item : items) result.push_back(std::move(item.item));
    return result;
}

Result<Value> absolute(const Value& input, const Arguments& arguments, Budget&) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    if (!is_number(input)) return misuse(input, "made absolute");
    const std::int64_t* whole = as_integer(input);
    if (whole == nullptr) return Value(std::fabs(as_double(input)));
    if (*whole == INT64_MIN) return Error{"a number needs more than 64 bits"};
    return Value(std::abs(*whole));
}

template <std::string (*Map)(std::string_view)>
Result<Value> map_text(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    CHAOS_TRY(const std::string text, text_of(input, budget));
    return Value::text(Map(text));
}

Result<Value> length(const Value& input, const Arguments& arguments, Budget&) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    CHAOS_TRY(const std::int64_t count, length_of(input));
    return Value(count);
}

Result<Value> otherwise(const Value& input, const Arguments& arguments, Budget&) {
    CHAOS_TRY(const auto bound, bind<2>(arguments, {"default_value", "boolean"}));
    const bool replaces = input.is_undefined() || (flag_of(bound[1]) && !is_true(input));
    if (!replaces) return input;
    return bound[0] ? *bound[0] : Value::text("");
}

Result<Value> sort_mapping(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<3>(arguments, {"case_sensitive", "by", "reverse"}));
    const Mapping* mapping = input.as_mapping();
    if (mapping == nullptr) return misuse(input, "sorted by its keys");
    std::string by = "key";
    if (bound[1]) {
        CHAOS_TRY(by, text_argument(*bound[1], "by"));
    }
    if (by != "key" && by != "value") return Error{"it sorts by 'key' or by 'value'"};
    std::vector<Keyed> items;
    for (const auto& [key, value] : mapping->entries) {
        CHAOS_TRY(Value pair, make_sequence(Sequence::Kind::tuple, {key, value}));
        CHAOS_TRY(Value order, key_of(by == "key" ? key : value, {}, flag_of(bound[0]), budget));
        items.push_back({.key = std::move(order), .item = std::move(pair)});
    }
    CHAOS_TRY(Values result, sorted(std::move(items), flag_of(bound[2]), budget));
    return make_sequence(Sequence::Kind::list, std::move(result));
}

Result<Value> first(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    const Sequence* sequence = input.as_sequence();
    if (sequence != nullptr && sequence->kind == Sequence::Kind::stream) {
        if (sequence->taken < sequence->items.size()) return sequence->items[sequence->taken++];
        return Value::undefined("No first item, sequence was empty.");
    }
    CHAOS_TRY(const Values items, items_of(input, budget));
    return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Result<Value> last(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    const Sequence* sequence = input.as_sequence();
    if (sequence != nullptr && sequence->kind == Sequence::Kind::stream) return misuse(input, "gone through backwards");
    CHAOS_TRY(const Values items, items_of(input, budget));
    return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Result<Value> to_float(const Value& input, const Arguments& arguments, Budget&) {
    CHAOS_TRY(const auto bound, bind<1>(arguments, {"default"}));
    const Value fallback = bound[0] ? *bound[0] : Value(0.0);
    if (is_number(input)) return Value(as_double(input));
    if (const std::string* text = input.as_text()) {
        const std::string_view digits = strip(*text, Side::both);
        double number = 0;
        const char* begin = digits.data();
        const char* end = begin + digits.size();
        const auto parsed = std::from_chars(begin, end, number);
        if (!digits.empty() && parsed.ec == std::errc() && parsed.ptr == end) return Value(number);
        return fallback;
    }
    if (input.is_undefined()) return misuse(input, "taken for a number");
    return fallback;
}

Result<Value> to_integer(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<2>(arguments, {"default", "base"}));
    if (bound[1]) return Error{"its argument 'base' is not supported"};
    const Value fallback = bound[0] ? *bound[0] : Value(std::int64_t{0});
    if (const std::int64_t* whole = as_integer(input)) return Value(*whole);
    if (const std::string* text = input.as_text()) {
        std::string_view digits = strip(*text, Side::both);
        if (digits.starts_with('+')) digits.remove_prefix(1);
        std::int64_t number = 0;
        const char* begin = digits.data();
        const char* end = begin + digits.size();
        const auto parsed = std::from_chars(begin, end, number);
        if (!digits.empty() && parsed.ec == std::errc() && parsed.ptr == end) return Value(number);
    }
    CHAOS_TRY(const Value real, to_float(input, {.positional = {Value()}, .named = {}}, budget));
    if (real.is_none()) return fallback;
    const double number = std::trunc(as_double(real));
    if (!std::isfinite(number)) return fallback;
    if (number >= 0x1p63 || number < -0x1p63) return Error{"a number needs more than 64 bits"};
    return Value(static_cast<std::int64_t>(number));
}

Result<Value> indent(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<3>(arguments, {"width", "first", "blank"}));
    const std::string* text = input.as_text();
    if (text == nullptr) return misuse(input, "indented");
    std::string margin(4, ' ');
    if (bound[0] && bound[0]->as_text() != nullptr) {
        margin = *bound[0]->as_text();
    } else if (bound[0]) {
        CHAOS_TRY(const std::int64_t width, integer_argument(*bound[0], "width"));
        CHAOS_CHECK(budget.spend_bytes(static_cast<std::size_t>(std::max<std::int64_t>(width, 0))));
        margin.assign(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
    // Jinja adds a line break so that one at the end counts.
    const std::string closed = *text + "\n";
    const std::vector<std::string_view> lines = split_lines(closed);
    CHAOS_CHECK(budget.spend_bytes(closed.size() + margin.size() * lines.size()));
    std::string result;
    bool is_first = true;
    for (const std::string_view line : lines) {
        if (!is_first) result += '\n';
        if (is_first ? flag_of(bound[1]) : flag_of(bound[2]) || !line.empty()) result += margin;
        is_first = false;
        result += line;
    }
    return Value::text(std::move(result));
}

Result<Value> pairs(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    if (input.is_undefined()) return make_sequence(Sequence::Kind::stream, {});
    if (input.as_mapping() == nullptr) return misuse(input, "taken apart into keys and values");
    CHAOS_TRY(const Value items, call_method(input, "items", {}, budget));
    return make_sequence(Sequence::Kind::stream, items.as_sequence()->items);
}

Result<Value> join(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<2>(arguments, {"d", "attribute"}));
    CHAOS_TRY(const Getter getter, Getter::of(bound[1]));
    std::string separator;
    if (bound[0]) {
        CHAOS_TRY(separator, text_of(*bound[0], budget));
    }
    CHAOS_TRY(const Values items, items_of(input, budget));
    std::string result;
    bool is_first = true;
    for (const Value& item : items) {
        CHAOS_TRY(const Value part, getter.get(item, budget));
        CHAOS_CHECK(budget.spend_bytes(separator.size()));
        if (!is_first) result += separator;
        is_first = false;
        CHAOS_CHECK(append_text(result, part, budget));
    }
    return Value::text(std::move(result));
}

Result<Value> list(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    CHAOS_TRY(Values items, items_of(input, budget));
    return make_sequence(Sequence::Kind::list, std::move(items));
}

// Of what is false there is nothing to go through, whether or not it could be.
Result<Values> items_if_true(const Value& input, Budget& budget) {
    if (!is_true(input)) return Values();
    return items_of(input, budget);
}

// map('filter', arguments...) or map(attribute='name', default=value)
Result<Value> map(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const Values items, items_if_true(input, budget));
    Values results;
    if (arguments.positional.empty()) {
        CHAOS_TRY(const auto bound, bind<2>(arguments, {"attribute", "default"}));
        if (!bound[0]) return Error{"it needs the name of a filter or 'attribute'"};
        CHAOS_TRY(const Getter getter, Getter::of(bound[0], bound[1]));
        for (const Value& item : items) {
            CHAOS_TRY(Value result, getter.get(item, budget));
            results.push_back(std::move(result));
        }
    } else {
        CHAOS_TRY(const std::string name, text_argument(arguments.positional.front(), "filter"));
        Arguments rest = arguments;
        rest.positional.erase(rest.positional.begin());
        for (const Value& item : items) {
            CHAOS_CHECK(budget.spend(1));
            CHAOS_TRY(Value result, apply_filter(name, item, rest, budget));
            results.push_back(std::move(result));
        }
    }
    return make_sequence(Sequence::Kind::stream, std::move(results));
}

template <bool IsMax>
Result<Value> extreme(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<2>(arguments, {"case_sensitive", "attribute"}));
    CHAOS_TRY(const Getter getter, Getter::of(bound[1]));
    CHAOS_TRY(const Values items, items_of(input, budget));
    if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
    const Value* best = nullptr;
    Value best_key;
    for (const Value& item : items) {
        CHAOS_TRY(Value key, key_of(item, getter, flag_of(bound[0]), budget));
        if (best != nullptr) {
            CHAOS_TRY(const int order, compare(key, best_key, budget));
            if (IsMax ? order <= 0 : order >= 0) continue;
        }
        best = &item;
        best_key = std::move(key);
    }
    return *best;
}

// select('test', arguments...), selectattr('name', 'test', arguments...) and their opposites.
template <bool ByAttribute, bool Keeps>
Result<Value> choose(const Value& input, const Arguments& arguments, Budget& budget) {
    if (!arguments.named.empty()) return Error{"it takes no arguments with names"};
    Arguments rest = arguments;
    const auto take = [&] {
        Value value = rest.positional.front();
        rest.positional.erase(rest.positional.begin());
        return value;
    };
    Bound attribute;
    if (ByAttribute) {
        if (rest.positional.empty()) return Error{"it needs the name of an attribute"};
        attribute = take();
    }
    CHAOS_TRY(const Getter getter, Getter::of(attribute));
    std::string test;
    if (!rest.positional.empty()) {
        CHAOS_TRY(test, text_argument(take(), "test"));
    }
    CHAOS_TRY(const Values items, items_if_true(input, budget));
    Values chosen;
    for (const Value& item : items) {
        CHAOS_CHECK(budget.spend(1));
        CHAOS_TRY(const Value value, getter.get(item, budget));
        const Result<bool> holds = test.empty() ? Result<bool>(is_true(value)) : apply_test(test, value, rest, budget);
        if (!holds) return holds.error();
        if (*holds == Keeps) chosen.push_back(item);
    }
    return make_sequence(Sequence::Kind::stream, std::move(chosen));
}

Result<Value> replace_text(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<3>(arguments, {"old", "new", "count"}));
    if (!bound[0] || !bound[1]) return Error{"it needs what to replace and with what"};
    CHAOS_TRY(std::string text, text_of(input, budget));
    CHAOS_TRY(std::string old, text_of(*bound[0], budget));
    CHAOS_TRY(std::string with, text_of(*bound[1], budget));
    Arguments rest{{Value::text(std::move(old)), Value::text(std::move(with))}, {}};
    if (bound[2] && !bound[2]->is_none()) rest.positional.push_back(*bound[2]);
    return call_method(Value::text(std::move(text)), "replace", rest, budget);
}

Result<Value> reverse(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    CHAOS_TRY(Values items, items_of(input, budget));
    std::ranges::reverse(items);
    CHAOS_TRY(const Value reversed, make_sequence(Sequence::Kind::stream, std::move(items)));
    if (input.as_text() == nullptr) return reversed;
    return join(reversed, {}, budget);
}

Result<Value> safe(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    CHAOS_TRY(std::string text, text_of(input, budget));
    return Value(String{std::make_shared<const std::string>(std::move(text)), true});
}

Result<Value> sort(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<3>(arguments, {"reverse", "case_sensitive", "attribute"}));
    CHAOS_TRY(const Getter getter, Getter::of(bound[2]));
    CHAOS_TRY(const Values items, items_of(input, budget));
    std::vector<Keyed> keyed;
    for (const Value& item : items) {
        CHAOS_TRY(Value key, key_of(item, getter, flag_of(bound[1]), budget));
        keyed.push_back({.key = std::move(key), .item = item});
    }
    CHAOS_TRY(Values result, sorted(std::move(keyed), flag_of(bound[0]), budget));
    return make_sequence(Sequence::Kind::list, std::move(result));
}

Result<Value> to_text(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    if (input.as_text() != nullptr) return input;
    CHAOS_TRY(std::string text, text_of(input, budget));
    return Value::text(std::move(text));
}

Result<Value> sum(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<2>(arguments, {"attribute", "start"}));
    CHAOS_TRY(const Getter getter, Getter::of(bound[0]));
    CHAOS_TRY(const Values items, items_of(input, budget));
    Value total = bound[1] ? *bound[1] : Value(std::int64_t{0});
    for (const Value& item : items) {
        CHAOS_TRY(const Value part, getter.get(item, budget));
        CHAOS_TRY(total, calculate('+', total, part, budget));
    }
    return total;
}

Result<Value> to_json_text(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<4>(arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
    JsonStyle style;
    style.ensure_ascii = flag_of(bound[0]);
    style.sort_keys = flag_of(bound[3]);
    if (bound[1] && !bound[1]->is_none()) {
        style.item_separator = ",";
        if (const std::string* margin = bound[1]->as_text()) {
            style.indent = *margin;
        } else {
            CHAOS_TRY(const std::int64_t width, integer_argument(*bound[1], "indent"));
            constexpr std::int64_t max_width = 100;
            if (width > max_width) return Error{"its argument 'indent' is larger than 100"};
            style.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
        }
    }
    if (bound[2] && !bound[2]->is_none()) {
        CHAOS_TRY(const Values separators, items_of(*bound[2], budget));
        if (separators.size() != 2) return Error{"its argument 'separators' must be two texts"};
        CHAOS_TRY(style.item_separator, text_argument(separators[0], "separators"));
        CHAOS_TRY(style.key_separator, text_argument(separators[1], "separators"));
    }
    CHAOS_TRY(std::string text, to_json(input, style, budget));
    return Value::text(std::move(text));
}

Result<Value> trim(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<1>(arguments, {"chars"}));
    CHAOS_TRY(const std::string text, text_of(input, budget));
    if (!bound[0] || bound[0]->is_none()) return Value::text(std::string(strip(text, Side::both)));
    CHAOS_TRY(const std::string characters, text_argument(*bound[0], "chars"));
    CHAOS_CHECK(budget.spend(text.size() * characters.size() / 16));
    return Value::text(std::string(strip(text, Side::both, characters)));
}

Result<Value> unique(const Value& input, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<2>(arguments, {"case_sensitive", "attribute"}));
    CHAOS_TRY(const Getter getter, Getter::of(bound[1]));
    CHAOS_TRY(const Values items, items_of(input, budget));
    Values seen;
    Values result;
    for (const Value& item : items) {
        CHAOS_TRY(const Value key, key_of(item, getter, flag_of(bound[0]), budget));
        if (!is_hashable(key)) return misuse(key, "told from others so");
        bool is_new = true;
        for (const Value& old : seen) {
            CHAOS_TRY(const bool same, equal(key, old, budget));
            is_new = is_new && !same;
        }
        if (!is_new) continue;
        seen.push_back(key);
        result.push_back(item);
    }
    return make_sequence(Sequence::Kind::stream, std::move(result));
}

struct Filter {
    std::string_view name;
    Result<Value> (*apply)(const Value& input, const Arguments& arguments, Budget& budget);
};

constexpr Filter filters[] = {
    {"abs", absolute},
    {"capitalize", map_text<capitalize>},
    {"count", length},
    {"d", otherwise},
    {"default", otherwise},
    {"dictsort", sort_mapping},
    {"first", first},
    {"float", to_float},
    {"indent", indent},
    {"int", to_integer},
    {"items", pairs},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", list},
    {"lower", map_text<lower>},
    {"map", map},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reject", choose<false, false>},
    {"rejectattr", choose<true, false>},
    {"replace", replace_text},
    {"reverse", reverse},
    {"safe", safe},
    {"select", choose<false, true>},
    {"selectattr", choose<true, true>},
    {"sort", sort},
    {"string", to_text},
    {"sum", sum},
    {"title", map_text<title_words>},
    {"tojson", to_json_text},
    {"trim", trim},
    {"unique", unique},
    {"upper", map_text<upper>},
};

}  // namespace

Result<Value> apply_filter(std::string_view name, const Value& input, const Arguments& arguments, Budget& budget) {
    const auto* filter = std::ranges::find(filters, name, &Filter::name);
    if (filter == std::end(filters)) return Error{"the filter '" + printable(name) + "' is not supported"};
    Result<Value> result = filter->apply(input, arguments, budget);
    if (result) return result;
    return Error{"in the filter '" + std::string(name) + "': " + result.error().message};
}

}  // namespace chaos::text
