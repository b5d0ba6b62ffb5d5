// base/ is what the standard library lacks: errors, hashing, files, random numbers as pure functions.
// Everybody may call it; it calls nobody but the operating system, OpenSSL and xxHash.
//
// Result<T> is how a function answers when what the user did, or what the world did, can make it fail:
// a value, or an Error holding one sentence a person can act on (it names the file and the field).
// A broken invariant of our own is not an Error: that is CHAOS_ASSERT (base/assert.h).
#pragma once

#include "base/assert.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace chaos {

struct Error {
    std::string message;
};

template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

    [[nodiscard]] bool ok() const { return content_.index() == 0; }
    explicit operator bool() const { return ok(); }

    T& value() & {
        CHAOS_ASSERT(ok());
        return *std::get_if<0>(&content_);
    }
    const T& value() const& {
        CHAOS_ASSERT(ok());
        return *std::get_if<0>(&content_);
    }
    T&& value() && {
        CHAOS_ASSERT(ok());
        return std::move(*std::get_if<0>(&content_));
    }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    [[nodiscard]] const Error& error() const {
        CHAOS_ASSERT(!ok());
        return *std::get_if<1>(&content_);
    }

private:
    std::variant<T, Error> content_;
};

template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) : error_(std::move(error)) {}

    [[nodiscard]] bool ok() const { return !error_.has_value(); }
    explicit operator bool() const { return ok(); }
    [[nodiscard]] const Error& error() const {
        CHAOS_ASSERT(!ok());
        return *error_;
    }

private:
    std::optional<Error> error_;
};

}  // namespace chaos

#define CHAOS_JOIN_INNER(a, b) a##b
#define CHAOS_JOIN(a, b) CHAOS_JOIN_INNER(a, b)

// Returns the error of `expression` from the enclosing function, if it is one.
#define CHAOS_CHECK(expression)                                                                                \
    do {                                                                                                       \
        if (auto chaos_result = (expression); !chaos_result.ok()) return ::chaos::Error(chaos_result.error()); \
    } while (false)

// CHAOS_TRY(auto file, read_file(path)): the value of `expression`, or its error returned to the caller.
#define CHAOS_TRY(declaration, expression) CHAOS_TRY_NAMED(CHAOS_JOIN(chaos_result_, __LINE__), declaration, expression)
#define CHAOS_TRY_NAMED(name, declaration, expression)   \
    auto name = (expression);                            \
    if (!name.ok()) return ::chaos::Error(name.error()); \
    declaration = std::move(name).value()
