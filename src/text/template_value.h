// What the expressions of a template work with: Python's values, as far as chat templates use them. They are shared,
// not copied, and never change (a namespace does), which is what Hugging Face's sandbox asks for too.
#pragma once

#include "base/result.h"
#include "text/template.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace chaos::text {

// What a rendering may still use. A template comes with a model, and a model from a stranger.
class Budget {
public:
    // About one step per node evaluated, item looked at and 16 bytes written.
    [[nodiscard]] Result<void> spend(std::size_t steps);
    // For a list of so many items that is about to be made.
    [[nodiscard]] Result<void> spend_items(std::size_t count);
    // For a string that is about to be made.
    [[nodiscard]] Result<void> spend_bytes(std::size_t bytes);

private:
    std::size_t steps_ = max_template_steps;
};

class Value;
struct Sequence;
struct Mapping;
struct Namespace;
struct Macro;
struct LoopState;

// What a name or an attribute that does not exist stands for. It may be printed, tested and looped over; anything else
// is the error that `why` tells.
struct Undefined {
    std::shared_ptr<const std::string> why;
};
struct None {};
struct String {
    std::shared_ptr<const std::string> text;  // valid UTF-8
    // Came out of the filter `safe`: what is added to it with + gets its HTML escaped.
    bool is_markup = false;
};
// A function of the language or a method of a value that is not being called: it is true and defined, nothing else.
struct Builtin {
    std::string_view name;
};

class Value {
public:
    using Content = std::variant<Undefined, None, bool, std::int64_t, double, String, std::shared_ptr<const Sequence>,
                                 std::shared_ptr<const Mapping>, Namespace*, const Macro*,
                                 std::shared_ptr<const LoopState>, Builtin>;

    Value() : content_(None{}) {}
    template <class Kind>
        requires std::constructible_from<Content, Kind> && (!std::same_as<std::remove_cvref_t<Kind>, Value>)
    Value(Kind&& kind) : content_(std::forward<Kind>(kind)) {}

    static Value text(std::string text) { return String{std::make_shared<const std::string>(std::move(text))}; }
    static Value undefined(std::string why) { return Undefined{std::make_shared<const std::string>(std::move(why))}; }

    // Null where the value is of another kind.
    template <class Kind>
    [[nodiscard]] const Kind* as() const {
        return std::get_if<Kind>(&content_);
    }
    [[nodiscard]] const std::string* as_text() const {
        const auto* string = as<String>();
        return string == nullptr ? nullptr : string->text.get();
    }
    [[nodiscard]] const Sequence* as_sequence() const {
        const auto* sequence = as<std::shared_ptr<const Sequence>>();
        return sequence == nullptr ? nullptr : sequence->get();
    }
    [[nodiscard]] const Mapping* as_mapping() const {
        const auto* mapping = as<std::shared_ptr<const Mapping>>();
        return mapping == nullptr ? nullptr : mapping->get();
    }
    [[nodiscard]] bool is_undefined() const { return as<Undefined>() != nullptr; }
    [[nodiscard]] bool is_none() const { return as<None>() != nullptr; }
    [[nodiscard]] const Content& content() const { return content_; }

private:
    Content content_;
};

using Values = std::vector<Value>;

struct Sequence {
    // A stream (what `map` and `select` make) can be gone through once; a view is what items() gives.
    enum class Kind { list, tuple, view, stream };
    Kind kind;
    Values items;
    int depth;
    mutable std::size_t taken = 0;  // of a stream
};

struct Mapping {
    std::vector<std::pair<Value, Value>> entries;  // in the order in which they were put in
    int depth;

    // Null where there is none.
    [[nodiscard]] const Value* find(std::string_view key) const;
    [[nodiscard]] const Value* find(const Value& key) const;
};

// Lives as long as the rendering.
struct Namespace {
    std::vector<std::pair<std::string, Value>> members;

    void set(std::string_view name, Value value);
    [[nodiscard]] const Value* find(std::string_view name) const;
};

// What `loop` is inside a for.
struct LoopState {
    Values items;
    std::size_t index = 0;
};

// Refused where values are nested too deeply.
[[nodiscard]] Result<Value> make_sequence(Sequence::Kind kind, Values items);
[[nodiscard]] Result<Value> make_mapping(std::vector<std::pair<Value, Value>> entries);
[[nodiscard]] Result<Value> value_of(const nlohmann::ordered_json& json);

// Python's name of the kind: "str", "NoneType".
[[nodiscard]] std::string_view type_of(const Value& value);
[[nodiscard]] bool is_true(const Value& value);
// bool, int or float.
[[nodiscard]] bool is_number(const Value& value);
// The value as Python's int(): a bool counts, a float does not.
[[nodiscard]] const std::int64_t* as_integer(const Value& value);
[[nodiscard]] double as_double(const Value& number);
[[nodiscard]] Result<bool> equal(const Value& a, const Value& b, Budget& budget);
// Whether it may be a key: lists and mappings may not.
[[nodiscard]] bool is_hashable(const Value& value);
// Refused for what cannot be a key.
[[nodiscard]] Result<const Value*> find_key(const Mapping& mapping, const Value& key, Budget& budget);
// Numbers with numbers, strings with strings, sequences item by item; less than 0, 0 or more than 0.
[[nodiscard]] Result<int> compare(const Value& a, const Value& b, Budget& budget);
[[nodiscard]] Result<bool> contains(const Value& container, const Value& item, Budget& budget);

// What a for loop goes through: items, keys, characters.
[[nodiscard]] Result<Values> items_of(const Value& value, Budget& budget);
[[nodiscard]] Result<std::int64_t> length_of(const Value& value);

// Python's str() and repr().
[[nodiscard]] Result<std::string> text_of(const Value& value, Budget& budget);
[[nodiscard]] Result<void> append_text(std::string& out, const Value& value, Budget& budget);
[[nodiscard]] std::string repr_of(double number);

// The error of using an undefined value, or of an operation that the kind of a value does not have.
[[nodiscard]] Error misuse(const Value& value, std::string_view operation);

}  // namespace chaos::text
