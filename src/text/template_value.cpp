#include "text/template_value.h"

#include "text/template_strings.h"
#include "text/utf8.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace chaos::text {
namespace {

constexpr int max_value_depth = 100;

Result<int> depth_above(int deepest) {
    if (deepest >= max_value_depth) {
        return Error{"values are nested more than " + std::to_string(max_value_depth) + " deep"};
    }
    return deepest + 1;
}

int depth_of(const Value& value) {
    if (const Sequence* sequence = value.as_sequence()) return sequence->depth;
    if (const Mapping* mapping = value.as_mapping()) return mapping->depth;
    return 0;
}

Result<Value> value_at(const nlohmann::ordered_json& json, int depth) {
    if (depth > max_value_depth) return depth_above(max_value_depth).error();
    switch (json.type()) {
        case nlohmann::detail::value_t::null:
            return Value();
        case nlohmann::detail::value_t::boolean:
            return Value(json.get<bool>());
        case nlohmann::detail::value_t::number_integer:
            return Value(json.get<std::int64_t>());
        case nlohmann::detail::value_t::number_unsigned:
            if (json.get<std::uint64_t>() > INT64_MAX) return Error{"the number " + json.dump() + " is too large"};
            return Value(json.get<std::int64_t>());
        case nlohmann::detail::value_t::number_float:
            return Value(json.get<double>());
        case nlohmann::detail::value_t::string:
            return Value::text(replace_invalid_utf8(json.get_ref<const std::string&>()));
        case nlohmann::detail::value_t::array: {
            Values items;
            items.reserve(json.size());
            for (const auto& member : json) {
                CHAOS_TRY(Value item, value_at(member, depth + 1));
                items.push_back(std::move(item));
            }
            return make_sequence(Sequence::Kind::list, std::move(items));
        }
        case nlohmann::detail::value_t::object: {
            std::vector<std::pair<Value, Value>> entries;
            entries.reserve(json.size());
            for (const auto& [key, member] : json.items()) {
                CHAOS_TRY(Value value, value_at(member, depth + 1));
                entries.emplace_back(Value::text(replace_invalid_utf8(key)), std::move(value));
            }
            return make_mapping(std::move(entries));
        }
        case nlohmann::detail::value_t::binary:
        case nlohmann::detail::value_t::discarded:
            break;
    }
    return Error{"a value is of no kind that JSON has"};
}

// Numbers of which one may be a float.
int order(double a, double b) {
    return a < b ? -1 : a > b ? 1 : 0;
}

// Python compares whole numbers and floats exactly, also where a float cannot hold the whole number.
std::partial_ordering order_numbers(const Value& a, const Value& b) {
    const std::int64_t* whole_a = as_integer(a);
    const std::int64_t* whole_b = as_integer(b);
    if (whole_a != nullptr && whole_b != nullptr) return *whole_a <=> *whole_b;
    if (whole_a == nullptr && whole_b == nullptr) return as_double(a) <=> as_double(b);
    const std::int64_t whole = whole_a != nullptr ? *whole_a : *whole_b;
    const double real = as_double(whole_a != nullptr ? b : a);
    std::partial_ordering result = std::partial_ordering::unordered;
    if (real >= 0x1p63) {
        result = std::partial_ordering::less;
    } else if (real < -0x1p63) {
        result = std::partial_ordering::greater;
    } else if (!std::isnan(real)) {
        const auto truncated = static_cast<std::int64_t>(real);
        result = whole <=> truncated;
        if (result == 0) result = 0.0 <=> real - std::trunc(real);
    }
    return whole_a != nullptr ? result : 0 <=> result;
}

Result<void> check_size(const std::string& out) {
    if (out.size() <= max_rendered_bytes) return {};
    return Error{"a text is longer than " + std::to_string(max_rendered_bytes >> 20) + " MiB"};
}

Result<void> append_repr(std::string& out, const Value& value, Budget& budget) {
    if (const std::string* text = value.as_text()) {
        CHAOS_CHECK(budget.spend_bytes(text->size()));
        // Markup says what it is.
        const bool is_markup = value.as<String>()->is_markup;
        if (is_markup) out += "Markup(";
        append_python_literal(out, *text);
        if (is_markup) out += ')';
        return check_size(out);
    }
    if (value.is_undefined()) {
        out += "Undefined";
        return {};
    }
    return append_text(out, value, budget);
}

Result<void> append_items(std::string& out, const Sequence& sequence, Budget& budget) {
    const bool is_tuple = sequence.kind == Sequence::Kind::tuple;
    out += is_tuple ? '(' : '[';
    bool first = true;
    for (const Value& item : sequence.items) {
        CHAOS_CHECK(budget.spend(1));
        if (!first) out += ", ";
        first = false;
        CHAOS_CHECK(append_repr(out, item, budget));
    }
    if (is_tuple && sequence.items.size() == 1) out += ',';
    out += is_tuple ? ')' : ']';
    return check_size(out);
}

Result<void> append_entries(std::string& out, const Mapping& mapping, Budget& budget) {
    out += '{';
    bool first = true;
    for (const auto& [key, value] : mapping.entries) {
        CHAOS_CHECK(budget.spend(1));
        if (!first) out += ", ";
        first = false;
        CHAOS_CHECK(append_repr(out, key, budget));
        out += ": ";
        CHAOS_CHECK(append_repr(out, value, budget));
    }
    out += '}';
    return check_size(out);
}

}  // namespace

Result<void> Budget::spend(std::size_t steps) {
    if (steps > steps_) {
        steps_ = 0;
        return Error{"the rendering takes more than " + std::to_string(max_template_steps) + " steps"};
    }
    steps_ -= steps;
    return {};
}

Result<void> Budget::spend_items(std::size_t count) {
    constexpr std::size_t steps_per_item = 4;  // an item takes the memory of many bytes
    return spend(1 + std::min(count, max_template_steps) * steps_per_item);
}

Result<void> Budget::spend_bytes(std::size_t bytes) {
    if (bytes > max_rendered_bytes) {
        return Error{"a text is longer than " + std::to_string(max_rendered_bytes >> 20) + " MiB"};
    }
    return spend(1 + bytes / 16);
}

const Value* Mapping::find(std::string_view key) const {
    for (const auto& [name, value] : entries) {
        const std::string* text = name.as_text();
        if (text != nullptr && *text == key) return &value;
    }
    return nullptr;
}

const Value* Mapping::find(const Value& key) const {
    if (const std::string* text = key.as_text()) return find(std::string_view(*text));
    for (const auto& [name, value] : entries) {
        if (key.is_none() && name.is_none()) return &value;
        if (is_number(key) && is_number(name) && order_numbers(key, name) == 0) return &value;
    }
    return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
    for (auto& [known, old] : members) {
        if (known != name) continue;
        old = std::move(value);
        return;
    }
    members.emplace_back(name, std::move(value));
}

const Value* Namespace::find(std::string_view name) const {
    for (const auto& [known, value] : members)
        if (known == name) return &value;
    return nullptr;
}

Result<Value> make_sequence(Sequence::Kind kind, Values items) {
    int deepest = 0;
    for (const Value& item : items) deepest = std::max(deepest, depth_of(item));
    CHAOS_TRY(const int depth, depth_above(deepest));
    return Value(std::make_shared<const Sequence>(Sequence{kind, std::move(items), depth}));
}

Result<Value> make_mapping(std::vector<std::pair<Value, Value>> entries) {
    int deepest = 0;
    for (const auto& [key, value] : entries) {
        if (key.as_text() == nullptr && !is_number(key) && !key.is_none()) {
            return Error{"a key of a mapping must be a text, a number or none"};
        }
        deepest = std::max(deepest, depth_of(value));
    }
    CHAOS_TRY(const int depth, depth_above(deepest));
    return Value(std::make_shared<const Mapping>(Mapping{std::move(entries), depth}));
}

Result<Value> value_of(const nlohmann::ordered_json& json) {
    return value_at(json, 0);
}

std::string_view type_of(const Value& value) {
    if (const Sequence* sequence = value.as_sequence()) {
        constexpr std::array<std::string_view, 4> names = {"list", "tuple", "dict_items", "generator"};
        return names[static_cast<std::size_t>(sequence->kind)];
    }
    constexpr std::array<std::string_view, std::variant_size_v<Value::Content>> names = {
        "Undefined", "NoneType", "bool",      "int",   "float", "str",
        "list",      "dict",     "Namespace", "Macro", "loop",  "function"};
    return names[value.content().index()];
}

bool is_true(const Value& value) {
    if (value.is_undefined() || value.is_none()) return false;
    if (const auto* flag = value.as<bool>()) return *flag;
    if (const auto* number = value.as<std::int64_t>()) return *number != 0;
    if (const auto* number = value.as<double>()) return *number != 0;
    if (const std::string* text = value.as_text()) return !text->empty();
    if (const Sequence* sequence = value.as_sequence()) {
        return sequence->kind == Sequence::Kind::stream || !sequence->items.empty();
    }
    if (const Mapping* mapping = value.as_mapping()) return !mapping->entries.empty();
    return true;
}

bool is_number(const Value& value) {
    return as_integer(value) != nullptr || value.as<double>() != nullptr;
}

const std::int64_t* as_integer(const Value& value) {
    static constexpr std::array<std::int64_t, 2> flags = {0, 1};
    if (const auto* flag = value.as<bool>()) return &flags[*flag ? 1 : 0];
    return value.as<std::int64_t>();
}

double as_double(const Value& number) {
    if (const auto* real = number.as<double>()) return *real;
    return static_cast<double>(*as_integer(number));
}

Result<bool> equal(const Value& a, const Value& b, Budget& budget) {
    CHAOS_CHECK(budget.spend(1));
    if (is_number(a) && is_number(b)) return order_numbers(a, b) == 0;
    if (a.content().index() != b.content().index()) return false;
    if (a.is_undefined() || a.is_none()) return true;
    if (a.as_text() != nullptr) return *a.as_text() == *b.as_text();
    if (a.as_sequence() != nullptr) {
        const Sequence& x = *a.as_sequence();
        const Sequence& y = *b.as_sequence();
        if (&x == &y) return true;
        const bool comparable = x.kind == Sequence::Kind::list || x.kind == Sequence::Kind::tuple;
        if (x.kind != y.kind || !comparable || x.items.size() != y.items.size()) return false;
        for (std::size_t index = 0; index < x.items.size(); ++index) {
            CHAOS_TRY(const bool same, equal(x.items[index], y.items[index], budget));
            if (!same) return false;
        }
        return true;
    }
    if (a.as_mapping() != nullptr) {
        const Mapping& x = *a.as_mapping();
        const Mapping& y = *b.as_mapping();
        if (&x == &y) return true;
        if (x.entries.size() != y.entries.size()) return false;
        for (const auto& [key, value] : x.entries) {
            CHAOS_CHECK(budget.spend(1 + y.entries.size() / 8));
            const Value* other = y.find(key);
            if (other == nullptr) return false;
            CHAOS_TRY(const bool same, equal(value, *other, budget));
            if (!same) return false;
        }
        return true;
    }
    if (const auto* builtin = a.as<Builtin>()) return builtin->name == b.as<Builtin>()->name;
    if (a.as<Namespace*>() != nullptr) return *a.as<Namespace*>() == *b.as<Namespace*>();
    if (a.as<const Macro*>() != nullptr) return *a.as<const Macro*>() == *b.as<const Macro*>();
    return *a.as<std::shared_ptr<const LoopState>>() == *b.as<std::shared_ptr<const LoopState>>();
}

Result<int> compare(const Value& a, const Value& b, Budget& budget) {
    CHAOS_CHECK(budget.spend(1));
    if (is_number(a) && is_number(b)) {
        const std::partial_ordering result = order_numbers(a, b);
        if (result == std::partial_ordering::unordered) return Error{"nan has no order"};
        return result < 0 ? -1 : result > 0 ? 1 : 0;
    }
    if (a.as_text() != nullptr && b.as_text() != nullptr) return a.as_text()->compare(*b.as_text());
    const Sequence* x = a.as_sequence();
    const Sequence* y = b.as_sequence();
    const bool comparable = x != nullptr && y != nullptr && x->kind == y->kind &&
                            (x->kind == Sequence::Kind::list || x->kind == Sequence::Kind::tuple);
    if (comparable) {
        for (std::size_t index = 0; index < std::min(x->items.size(), y->items.size()); ++index) {
            CHAOS_TRY(const bool same, equal(x->items[index], y->items[index], budget));
            if (!same) return compare(x->items[index], y->items[index], budget);
        }
        return order(static_cast<double>(x->items.size()), static_cast<double>(y->items.size()));
    }
    for (const Value* value : {&a, &b})
        if (value->is_undefined()) return misuse(*value, "compared");
    return Error{"values of the types " + std::string(type_of(a)) + " and " + std::string(type_of(b)) +
                 " have no order"};
}

bool is_hashable(const Value& value) {
    const Sequence* sequence = value.as_sequence();
    if (sequence == nullptr) return value.as_mapping() == nullptr;
    return sequence->kind == Sequence::Kind::tuple && std::ranges::all_of(sequence->items, is_hashable);
}

Result<const Value*> find_key(const Mapping& mapping, const Value& key, Budget& budget) {
    if (!is_hashable(key)) return misuse(key, "a key of a mapping");
    CHAOS_CHECK(budget.spend(1 + mapping.entries.size() / 8));
    return mapping.find(key);
}

Result<bool> contains(const Value& container, const Value& item, Budget& budget) {
    if (const std::string* text = container.as_text()) {
        const std::string* part = item.as_text();
        if (part == nullptr) return misuse(item, "looked for in a text");
        CHAOS_CHECK(budget.spend_bytes(text->size()));
        return text->find(*part) != std::string::npos;
    }
    if (const Mapping* mapping = container.as_mapping()) {
        CHAOS_TRY(const Value* found, find_key(*mapping, item, budget));
        return found != nullptr;
    }
    CHAOS_TRY(const Values items, items_of(container, budget));
    for (const Value& member : items) {
        CHAOS_TRY(const bool same, equal(member, item, budget));
        if (same) return true;
    }
    return false;
}

Result<Values> items_of(const Value& value, Budget& budget) {
    Values items;
    if (const Sequence* sequence = value.as_sequence()) {
        CHAOS_CHECK(budget.spend_items(sequence->items.size()));
        const auto begin = sequence->items.begin() + static_cast<std::ptrdiff_t>(sequence->taken);
        items.assign(begin, sequence->items.end());
        if (sequence->kind == Sequence::Kind::stream) sequence->taken = sequence->items.size();
    } else if (const Mapping* mapping = value.as_mapping()) {
        CHAOS_CHECK(budget.spend_items(mapping->entries.size()));
        for (const auto& [key, member] : mapping->entries) items.push_back(key);
    } else if (const std::string* text = value.as_text()) {
        // A character becomes a value of its own, with all that comes with one.
        CHAOS_CHECK(budget.spend(1 + 8 * text->size()));
        for (std::size_t at = 0; at < text->size();) {
            const std::size_t bytes = character_at(*text, at).bytes;
            items.push_back(Value::text(text->substr(at, bytes)));
            at += bytes;
        }
    } else if (!value.is_undefined()) {
        return misuse(value, "gone through");
    }
    return items;
}

Result<std::int64_t> length_of(const Value& value) {
    if (value.is_undefined()) return 0;
    if (const std::string* text = value.as_text()) return static_cast<std::int64_t>(characters_in(*text));
    if (const Mapping* mapping = value.as_mapping()) return static_cast<std::int64_t>(mapping->entries.size());
    const Sequence* sequence = value.as_sequence();
    if (sequence != nullptr && sequence->kind != Sequence::Kind::stream) {
        return static_cast<std::int64_t>(sequence->items.size());
    }
    if (const auto* loop = value.as<std::shared_ptr<const LoopState>>()) {
        return static_cast<std::int64_t>((*loop)->items.size());
    }
    return Error{"a value of the type " + std::string(type_of(value)) + " has no length"};
}

Result<std::string> text_of(const Value& value, Budget& budget) {
    std::string result;
    CHAOS_CHECK(append_text(result, value, budget));
    return result;
}

Result<void> append_text(std::string& out, const Value& value, Budget& budget) {
    if (const std::string* text = value.as_text()) {
        CHAOS_CHECK(budget.spend_bytes(text->size()));
        out += *text;
    } else if (value.is_none()) {
        out += "None";
    } else if (const auto* flag = value.as<bool>()) {
        out += *flag ? "True" : "False";
    } else if (const auto* whole = value.as<std::int64_t>()) {
        out += std::to_string(*whole);
    } else if (const auto* real = value.as<double>()) {
        out += repr_of(*real);
    } else if (const Sequence* sequence = value.as_sequence();
               sequence != nullptr && sequence->kind != Sequence::Kind::stream) {
        if (sequence->kind == Sequence::Kind::view) return misuse(value, "written out");
        return append_items(out, *sequence, budget);
    } else if (const Mapping* mapping = value.as_mapping()) {
        return append_entries(out, *mapping, budget);
    } else if (!value.is_undefined()) {
        return misuse(value, "written out");
    }
    return check_size(out);
}

// Python writes the shortest digits that give the number back, in a fixed form where its exponent is from -4 to 15.
std::string repr_of(double number) {
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
    std::array<char, 32> buffer{};
    const auto written =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::scientific);
    const std::string_view text(buffer.data(), written.ptr);
    const std::size_t e = text.find('e');
    int exponent = 0;
    const bool is_negative_exponent = text[e + 1] == '-';
    std::from_chars(text.data() + e + 2, text.data() + text.size(), exponent);
    if (is_negative_exponent) exponent = -exponent;
    if (exponent < -4 || exponent >= 16) return std::string(text);
    std::string digits;
    for (const char c : text.substr(0, e))
        if (c >= '0' && c <= '9') digits += c;
    std::string result = std::signbit(number) ? "-" : "";
    if (exponent < 0) return result + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
    const auto point = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() <= point) return result + digits + std::string(point - digits.size(), '0') + ".0";
    return result + digits.substr(0, point) + "." + digits.substr(point);
}

Error misuse(const Value& value, std::string_view operation) {
    if (const auto* undefined = value.as<Undefined>()) return Error{*undefined->why};
    return Error{"a value of the type " + std::string(type_of(value)) + " cannot be " + std::string(operation)};
}

}  // namespace chaos::text
