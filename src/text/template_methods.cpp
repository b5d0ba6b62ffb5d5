#include "base/words.h"
#include "text/template_builtins.h"
#include "text/template_strings.h"
#include "text/utf8.h"

#include <algorithm>

namespace chaos::text {
namespace {

using Bound = std::optional<Value>;

// Of a text, a mapping and so on: what a method is called on.
template <class Object>
struct Method {
    std::string_view name;
    Result<Value> (*call)(const Object& object, const Arguments& arguments, Budget& budget);
};

template <Side Where>
Result<Value> strip_text(const std::string& text, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<1>(arguments, {""}));
    if (!bound[0] || bound[0]->is_none()) return Value::text(std::string(strip(text, Where)));
    CHAOS_TRY(const std::string characters, text_argument(*bound[0], "chars"));
    CHAOS_CHECK(budget.spend(text.size() * characters.size() / 16));
    return Value::text(std::string(strip(text, Where, characters)));
}

// A limit of how often something is done, of which a negative one is none.
Result<std::size_t> limit_of(const Bound& argument, std::string_view name) {
    if (!argument) return no_limit;
    CHAOS_TRY(const std::int64_t limit, integer_argument(*argument, name));
    return limit < 0 ? no_limit : static_cast<std::size_t>(limit);
}

template <bool FromEnd>
Result<Value> split_text(const std::string& text, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<2>(arguments, {"sep", "maxsplit"}));
    CHAOS_TRY(const std::size_t limit, limit_of(bound[1], "maxsplit"));
    if (!bound[0] || bound[0]->is_none())
        return list_of(FromEnd ? split_from_end(text, limit) : split(text, limit), budget);
    CHAOS_TRY(const std::string separator, text_argument(*bound[0], "sep"));
    if (separator.empty()) return Error{"the separator is empty"};
    return list_of(FromEnd ? split_from_end(text, separator, limit) : split(text, separator, limit), budget);
}

Result<Value> split_text_lines(const std::string& text, const Arguments& arguments, Budget& budget) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    return list_of(split_lines(text), budget);
}

template <bool AtEnd>
Result<Value> begins_or_ends(const std::string& text, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<1>(arguments, {""}));
    if (!bound[0]) return Error{"it needs a text"};
    Values parts = {*bound[0]};
    const Sequence* several = bound[0]->as_sequence();
    if (several != nullptr && several->kind == Sequence::Kind::tuple) parts = several->items;
    for (const Value& part : parts) {
        CHAOS_CHECK(budget.spend(1));
        CHAOS_TRY(const std::string border, text_argument(part, "prefix"));
        if (AtEnd ? text.ends_with(border) : text.starts_with(border)) return Value(true);
    }
    return Value(false);
}

template <bool AtEnd>
Result<Value> without_border(const std::string& text, const Arguments& arguments, Budget&) {
    CHAOS_TRY(const auto bound, bind<1>(arguments, {""}));
    if (!bound[0]) return Error{"it needs a text"};
    CHAOS_TRY(const std::string border, text_argument(*bound[0], "prefix"));
    if (AtEnd && text.ends_with(border)) return Value::text(text.substr(0, text.size() - border.size()));
    if (!AtEnd && text.starts_with(border)) return Value::text(text.substr(border.size()));
    return Value::text(text);
}

Result<Value> replace_in(const std::string& text, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<3>(arguments, {"", "", "count"}));
    if (!bound[0] || !bound[1]) return Error{"it needs what to replace and with what"};
    CHAOS_TRY(const std::string old, text_argument(*bound[0], "old"));
    CHAOS_TRY(const std::string with, text_argument(*bound[1], "new"));
    CHAOS_TRY(const std::size_t limit, limit_of(bound[2], "count"));
    const std::size_t times = std::min(limit, occurrences(text, old));
    if (times > 0 && with.size() > max_rendered_bytes / times)
        return budget.spend_bytes(max_rendered_bytes + 1).error();
    CHAOS_CHECK(budget.spend_bytes(text.size() + with.size() * times));
    return Value::text(replace(text, old, with, limit));
}

template <std::string (*Map)(std::string_view)>
Result<Value> map_text(const std::string& text, const Arguments& arguments, Budget&) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    return Value::text(Map(text));
}

template <bool FromEnd>
Result<Value> find_in(const std::string& text, const Arguments& arguments, Budget&) {
    CHAOS_TRY(const auto bound, bind<1>(arguments, {""}));
    if (!bound[0]) return Error{"it needs a text"};
    CHAOS_TRY(const std::string part, text_argument(*bound[0], "sub"));
    const std::size_t at = FromEnd ? text.rfind(part) : text.find(part);
    if (at == std::string::npos) return Value(std::int64_t{-1});
    return Value(static_cast<std::int64_t>(characters_in(std::string_view(text).substr(0, at))));
}

Result<Value> count_in(const std::string& text, const Arguments& arguments, Budget&) {
    CHAOS_TRY(const auto bound, bind<1>(arguments, {""}));
    if (!bound[0]) return Error{"it needs a text"};
    CHAOS_TRY(const std::string part, text_argument(*bound[0], "sub"));
    return Value(static_cast<std::int64_t>(occurrences(text, part)));
}

Result<Value> join_with(const std::string& text, const Arguments& arguments, Budget& budget) {
    CHAOS_TRY(const auto bound, bind<1>(arguments, {""}));
    if (!bound[0]) return Error{"it needs what to join"};
    CHAOS_TRY(const Values items, items_of(*bound[0], budget));
    for (const Value& item : items)
        if (item.as_text() == nullptr) return misuse(item, "joined: only texts can");
    CHAOS_TRY(const Value list, make_sequence(Sequence::Kind::list, items));
    return apply_filter("join", list, {{Value::text(text)}, {}}, budget);
}

template <bool (*Holds)(char32_t)>
Result<Value> consists_of(const std::string& text, const Arguments& arguments, Budget&) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    for (std::size_t at = 0; at < text.size(); at += character_at(text, at).bytes) {
        if (!Holds(character_at(text, at).code)) return Value(false);
    }
    return Value(!text.empty());
}

bool is_letter_or_digit(char32_t code) {
    return is_letter(code) || is_digit(code);
}

constexpr Method<std::string> text_methods[] = {
    {"capitalize", map_text<capitalize>},
    {"count", count_in},
    {"endswith", begins_or_ends<true>},
    {"find", find_in<false>},
    {"isalnum", consists_of<is_letter_or_digit>},
    {"isalpha", consists_of<is_letter>},
    {"isdigit", consists_of<is_digit>},
    {"isspace", consists_of<is_python_space>},
    {"join", join_with},
    {"lower", map_text<lower>},
    {"lstrip", strip_text<Side::left>},
    {"removeprefix", without_border<false>},
    {"removesuffix", without_border<true>},
    {"replace", replace_in},
    {"rfind", find_in<true>},
    {"rsplit", split_text<true>},
    {"rstrip", strip_text<Side::right>},
    {"split", split_text<false>},
    {"splitlines", split_text_lines},
    {"startswith", begins_or_ends<false>},
    {"strip", strip_text<Side::both>},
    {"title", map_text<title>},
    {"upper", map_text<upper>},
};

template <bool WithKeys, bool WithValues>
Result<Value> view(const Mapping& mapping, const Arguments& arguments, Budget& budget) {
    CHAOS_CHECK(bind<0>(arguments, {}));
    CHAOS_CHECK(budget.spend_items(2 * mapping.entries.size()));
    Values items;
    for (const auto& [key, value] : mapping.entries) {
        if (WithKeys && WithValues) {
            CHAOS_TRY(Value pair, make_sequence(Sequence::Kind::tuple, {key, value}));
            items.push_back(std::move(pair));
        } else {
            items.push_back(WithKeys ? key : value);
        }
    }
    return make_sequence(Sequence::Kind::view, std::move(items));
}

constexpr Method<Mapping> mapping_methods[] = {
    {"copy",
     [](const Mapping& mapping, const Arguments& arguments, Budget& budget) -> Result<Value> {
         CHAOS_CHECK(bind<0>(arguments, {}));
         CHAOS_CHECK(budget.spend_items(2 * mapping.entries.size()));
         return make_mapping(mapping.entries);
     }},
    {"get",
     [](const Mapping& mapping, const Arguments& arguments, Budget& budget) -> Result<Value> {
         CHAOS_TRY(const auto bound, bind<2>(arguments, {"", ""}));
         if (!bound[0]) return Error{"it needs a key"};
         CHAOS_TRY(const Value* value, find_key(mapping, *bound[0], budget));
         if (value != nullptr) return *value;
         return bound[1] ? *bound[1] : Value();
     }},
    {"items", view<true, true>},
    {"keys", view<true, false>},
    {"values", view<false, true>},
};

constexpr Method<Sequence> list_methods[] = {
    {"count",
     [](const Sequence& list, const Arguments& arguments, Budget& budget) -> Result<Value> {
         CHAOS_TRY(const auto bound, bind<1>(arguments, {""}));
         if (!bound[0]) return Error{"it needs a value"};
         std::int64_t count = 0;
         for (const Value& item : list.items) {
             CHAOS_TRY(const bool same, equal(item, *bound[0], budget));
             count += same ? 1 : 0;
         }
         return Value(count);
     }},
    {"index",
     [](const Sequence& list, const Arguments& arguments, Budget& budget) -> Result<Value> {
         CHAOS_TRY(const auto bound, bind<1>(arguments, {""}));
         if (!bound[0]) return Error{"it needs a value"};
         for (std::size_t index = 0; index < list.items.size(); ++index) {
             CHAOS_TRY(const bool same, equal(list.items[index], *bound[0], budget));
             if (same) return Value(static_cast<std::int64_t>(index));
         }
         return Error{"the value is not in the list"};
     }},
};

constexpr Method<LoopState> loop_methods[] = {
    {"cycle",
     [](const LoopState& loop, const Arguments& arguments, Budget&) -> Result<Value> {
         if (arguments.positional.empty() || !arguments.named.empty()) return Error{"it needs values"};
         return arguments.positional[loop.index % arguments.positional.size()];
     }},
};

template <class Object, std::size_t Count>
Result<Value> call_in(const Method<Object> (&methods)[Count], const Object& object, const Value& value,
                      std::string_view name, const Arguments& arguments, Budget& budget) {
    const auto* method = std::ranges::find(methods, name, &Method<Object>::name);
    const std::string full_name = "'" + printable(name) + "' of a " + std::string(type_of(value));
    if (method == std::end(methods)) return Error{"the method " + full_name + " is not supported"};
    Result<Value> result = method->call(object, arguments, budget);
    if (result) return result;
    return Error{"in the method " + full_name + ": " + result.error().message};
}

}  // namespace

Result<Value> call_method(const Value& object, std::string_view name, const Arguments& arguments, Budget& budget) {
    if (const std::string* text = object.as_text()) {
        CHAOS_CHECK(budget.spend_bytes(text->size()));
        return call_in(text_methods, *text, object, name, arguments, budget);
    }
    if (const Mapping* mapping = object.as_mapping()) {
        return call_in(mapping_methods, *mapping, object, name, arguments, budget);
    }
    if (const Sequence* sequence = object.as_sequence()) {
        return call_in(list_methods, *sequence, object, name, arguments, budget);
    }
    if (const auto* loop = object.as<std::shared_ptr<const LoopState>>()) {
        return call_in(loop_methods, **loop, object, name, arguments, budget);
    }
    return misuse(object, "called");
}

Result<Value> list_of(const std::vector<std::string_view>& parts, Budget& budget) {
    // A text of its own costs more than its bytes.
    CHAOS_CHECK(budget.spend_items(2 * parts.size()));
    Values items;
    for (const std::string_view part : parts) items.push_back(Value::text(std::string(part)));
    return make_sequence(Sequence::Kind::list, std::move(items));
}

Result<std::string> text_argument(const Value& value, std::string_view name) {
    if (value.as_text() != nullptr) return *value.as_text();
    if (value.is_undefined()) return misuse(value, "");
    return Error{"its argument '" + std::string(name) + "' must be a text, not a " + std::string(type_of(value))};
}

Result<std::int64_t> integer_argument(const Value& value, std::string_view name) {
    if (const std::int64_t* whole = as_integer(value)) return *whole;
    if (value.is_undefined()) return misuse(value, "");
    return Error{"its argument '" + std::string(name) + "' must be a whole number, not a " +
                 std::string(type_of(value))};
}

}  // namespace chaos::text
