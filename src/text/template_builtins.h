// The filters, tests and methods of templates, one file for each kind.
#pragma once

#include "base/result.h"
#include "text/template_value.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chaos::text {

// What a filter, a test or a function was given besides its input.
struct Arguments {
    Values positional;
    std::vector<std::pair<std::string_view, Value>> named;
};

[[nodiscard]] Result<Value> apply_filter(std::string_view name, const Value& input, const Arguments& arguments,
                                         Budget& budget);
[[nodiscard]] Result<bool> apply_test(std::string_view name, const Value& input, const Arguments& arguments,
                                      Budget& budget);

// object.name and object[key]. What is not there is undefined; of an undefined object it is an error.
[[nodiscard]] Result<Value> attribute_of(const Value& object, std::string_view name, Budget& budget);
[[nodiscard]] Result<Value> item_of(const Value& object, const Value& key, Budget& budget);
[[nodiscard]] Result<Value> slice_of(const Value& object, std::optional<std::int64_t> start,
                                     std::optional<std::int64_t> stop, std::int64_t step, Budget& budget);
// object.name(...), where attribute_of() gave a Builtin.
[[nodiscard]] Result<Value> call_method(const Value& object, std::string_view name, const Arguments& arguments,
                                        Budget& budget);

// Python's a + b, a - b and so on; `sign` is how the operator is written.
[[nodiscard]] Result<Value> calculate(char sign, const Value& a, const Value& b, Budget& budget);
[[nodiscard]] Result<Value> divide_down(const Value& a, const Value& b);
[[nodiscard]] Result<Value> power(const Value& a, const Value& b);

// A list of copies.
[[nodiscard]] Result<Value> list_of(const std::vector<std::string_view>& parts, Budget& budget);

// Which argument is which parameter, by place or by name.
template <std::size_t Count>
[[nodiscard]] Result<std::array<std::optional<Value>, Count>> bind(
    const Arguments& arguments, const std::array<std::string_view, Count>& parameters) {
    std::array<std::optional<Value>, Count> values;
    if (arguments.positional.size() > Count) {
        return Error{"it takes at most " + std::to_string(Count) + " arguments"};
    }
    for (std::size_t index = 0; index < arguments.positional.size(); ++index) {
        values[index] = arguments.positional[index];
    }
    for (const auto& [name, value] : arguments.named) {
        std::size_t index = 0;
        while (index < Count && parameters[index] != name) ++index;
        if (index == Count) return Error{"it has no argument '" + std::string(name) + "'"};
        if (values[index]) return Error{"it got its argument '" + std::string(name) + "' twice"};
        values[index] = value;
    }
    return values;
}

// The text of an argument that must be one.
[[nodiscard]] Result<std::string> text_argument(const Value& value, std::string_view name);
[[nodiscard]] Result<std::int64_t> integer_argument(const Value& value, std::string_view name);

}  // namespace chaos::text
