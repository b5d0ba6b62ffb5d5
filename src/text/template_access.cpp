// object.name, object[key] and object[start:stop:step].
#include "text/template_builtins.h"
#include "text/template_strings.h"
#include "text/utf8.h"

#include <algorithm>
#include <limits>

namespace chaos::text {
namespace {

// All that Python's values have, supported or not: a name in here is a method, whatever else it might be.
constexpr std::string_view text_methods[] = {
    "capitalize",   "casefold",   "center",    "count",       "encode",    "endswith",     "expandtabs",   "find",
    "format",       "format_map", "index",     "isalnum",     "isalpha",   "isascii",      "isdecimal",    "isdigit",
    "isidentifier", "islower",    "isnumeric", "isprintable", "isspace",   "istitle",      "isupper",      "join",
    "ljust",        "lower",      "lstrip",    "maketrans",   "partition", "removeprefix", "removesuffix", "replace",
    "rfind",        "rindex",     "rjust",     "rpartition",  "rsplit",    "rstrip",       "split",        "splitlines",
    "startswith",   "strip",      "swapcase",  "title",       "translate", "upper",        "zfill"};
constexpr std::string_view mapping_methods[] = {"clear", "copy",    "fromkeys",   "get",    "items", "keys",
                                                "pop",   "popitem", "setdefault", "update", "values"};
constexpr std::string_view list_methods[] = {"append", "clear", "copy",   "count",   "extend", "index",
                                             "insert", "pop",   "remove", "reverse", "sort"};
constexpr std::string_view tuple_methods[] = {"count", "index"};
constexpr std::string_view loop_methods[] = {"changed", "cycle"};

template <std::size_t Count>
std::optional<Value> method_in(const std::string_view (&names)[Count], std::string_view name) {
    const auto* found = std::ranges::find(names, name);
    if (found == std::end(names)) return std::nullopt;
    return Value(Builtin{*found});
}

std::optional<Value> method_of(const Value& object, std::string_view name) {
    if (object.as_text() != nullptr) return method_in(text_methods, name);
    if (object.as_mapping() != nullptr) return method_in(mapping_methods, name);
    if (const Sequence* sequence = object.as_sequence()) {
        if (sequence->kind == Sequence::Kind::list) return method_in(list_methods, name);
        if (sequence->kind == Sequence::Kind::tuple) return method_in(tuple_methods, name);
    }
    if (object.as<std::shared_ptr<const LoopState>>() != nullptr) return method_in(loop_methods, name);
    return std::nullopt;
}

std::optional<Value> loop_attribute(const LoopState& loop, std::string_view name) {
    const auto index = static_cast<std::int64_t>(loop.index);
    const auto count = static_cast<std::int64_t>(loop.items.size());
    if (name == "index") return Value(index + 1);
    if (name == "index0") return Value(index);
    if (name == "revindex") return Value(count - index);
    if (name == "revindex0") return Value(count - index - 1);
    if (name == "first") return Value(index == 0);
    if (name == "last") return Value(index + 1 == count);
    if (name == "length") return Value(count);
    if (name == "depth") return Value(std::int64_t{1});
    if (name == "depth0") return Value(std::int64_t{0});
    if (name == "previtem") {
        return index == 0 ? Value::undefined("there is no previous item") : loop.items[loop.index - 1];
    }
    if (name == "nextitem") {
        return index + 1 == count ? Value::undefined("there is no next item") : loop.items[loop.index + 1];
    }
    return std::nullopt;
}

Value missing(const Value& object, const std::string& name) {
    return Value::undefined("'" + std::string(type_of(object)) + " object' has no attribute '" + name + "'");
}

// The place of item `index` among `count`, counted from the end where it is negative.
std::optional<std::size_t> place_of(std::int64_t index, std::size_t count) {
    const auto size = static_cast<std::int64_t>(count);
    if (index < 0) index += size;
    if (index < 0 || index >= size) return std::nullopt;
    return static_cast<std::size_t>(index);
}

// Which of `count` items a slice takes, in its order: Python's slice.indices().
std::vector<std::size_t> places_of(std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                                   std::int64_t step, std::size_t count) {
    const auto size = static_cast<std::int64_t>(count);
    const std::int64_t lowest = step > 0 ? 0 : -1;
    const std::int64_t highest = step > 0 ? size : size - 1;
    const auto bound = [&](std::optional<std::int64_t> asked, std::int64_t otherwise) {
        if (!asked) return otherwise;
        return std::clamp(*asked < 0 ? *asked + size : *asked, lowest, highest);
    };
    std::int64_t at = bound(start, step > 0 ? lowest : highest);
    const std::int64_t end = bound(stop, step > 0 ? highest : lowest);
    std::vector<std::size_t> places;
    while (step > 0 ? at < end : at > end) {
        places.push_back(static_cast<std::size_t>(at));
        if (step > 0 ? step >= end - at : step <= end - at) break;
        at += step;
    }
    return places;
}

}  // namespace

Result<Value> attribute_of(const Value& object, std::string_view name, Budget& budget) {
    if (object.is_undefined()) return misuse(object, "");
    if (auto method = method_of(object, name)) return *method;
    if (const auto* space = object.as<Namespace*>()) {
        CHAOS_CHECK(budget.spend(1 + (*space)->members.size() / 8));
        if (const Value* member = (*space)->find(name)) return *member;
    } else if (const Mapping* mapping = object.as_mapping()) {
        CHAOS_CHECK(budget.spend(1 + mapping->entries.size() / 8));
        if (const Value* member = mapping->find(name)) return *member;
    } else if (const auto* loop = object.as<std::shared_ptr<const LoopState>>()) {
        if (auto attribute = loop_attribute(**loop, name)) return *attribute;
    }
    return missing(object, std::string(name));
}

Result<Value> item_of(const Value& object, const Value& key, Budget& budget) {
    if (object.is_undefined()) return misuse(object, "");
    if (const Mapping* mapping = object.as_mapping()) {
        CHAOS_CHECK(budget.spend(1 + mapping->entries.size() / 8));
        if (const Value* member = mapping->find(key)) return *member;
    }
    if (const std::string* name = key.as_text()) return attribute_of(object, *name, budget);
    const std::int64_t* index = as_integer(key);
    const Sequence* sequence = object.as_sequence();
    if (index != nullptr && sequence != nullptr &&
        (sequence->kind == Sequence::Kind::list || sequence->kind == Sequence::Kind::tuple)) {
        if (const auto place = place_of(*index, sequence->items.size())) return sequence->items[*place];
    }
    const std::string* text = object.as_text();
    if (index != nullptr && text != nullptr) {
        CHAOS_CHECK(budget.spend_bytes(text->size()));
        if (const auto place = place_of(*index, characters_in(*text))) {
            const std::size_t at = offset_of_character(*text, *place);
            return Value::text(text->substr(at, character_at(*text, at).bytes));
        }
    }
    CHAOS_TRY(const std::string name, text_of(key, budget));
    return missing(object, name);
}

Result<Value> slice_of(const Value& object, std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                       std::int64_t step, Budget& budget) {
    if (step == 0) return Error{"the step of a slice is zero"};
    // Steps beyond any length are all the same, and these can be added without overflow.
    constexpr std::int64_t longest = std::numeric_limits<std::int32_t>::max();
    step = std::clamp(step, -longest, longest);
    const auto tame = [&](std::optional<std::int64_t> bound) {
        if (bound) bound = std::clamp(*bound, -longest, longest);
        return bound;
    };
    start = tame(start);
    stop = tame(stop);
    if (const std::string* text = object.as_text()) {
        CHAOS_CHECK(budget.spend_bytes(4 * std::min(text->size(), max_rendered_bytes / 4)));
        std::vector<std::size_t> offsets;
        for (std::size_t at = 0; at < text->size(); at += character_at(*text, at).bytes) offsets.push_back(at);
        std::string result;
        for (const std::size_t place : places_of(start, stop, step, offsets.size())) {
            result.append(*text, offsets[place], character_at(*text, offsets[place]).bytes);
        }
        return Value::text(std::move(result));
    }
    const Sequence* sequence = object.as_sequence();
    const bool is_sliceable =
        sequence != nullptr && (sequence->kind == Sequence::Kind::list || sequence->kind == Sequence::Kind::tuple);
    if (!is_sliceable) return misuse(object, "sliced");
    CHAOS_CHECK(budget.spend_items(sequence->items.size()));
    Values items;
    for (const std::size_t place : places_of(start, stop, step, sequence->items.size())) {
        items.push_back(sequence->items[place]);
    }
    return make_sequence(sequence->kind, std::move(items));
}

}  // namespace chaos::text
