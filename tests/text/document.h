// JSON written in a test, as a field of a file called "t.json".
#pragma once

#include "text/fields.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace chaos::test {

class Document {
public:
    explicit Document(std::string_view json) : value_(nlohmann::json::parse(json)) {}
    [[nodiscard]] text::Field field() const { return {value_, "t.json"}; }

private:
    nlohmann::json value_;
};

// The message of a Result that must be an error.
template <class T>
std::string error_of(const Result<T>& result) {
    return result.ok() ? "(no error)" : result.error().message;
}

}  // namespace chaos::test
