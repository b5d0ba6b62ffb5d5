// Reference data that lies beside a developer's checkout and is not part of the repository.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

namespace chaos::test {

inline std::filesystem::path shared(const char* name) {
    return std::filesystem::path(CHAOS_SHARED) / name;
}

}  // namespace chaos::test

// Skips the test when ../shared/NAME is not there.
#define CHAOS_NEED_SHARED(name)                                \
    if (!std::filesystem::exists(::chaos::test::shared(name))) \
    GTEST_SKIP() << "needs " << ::chaos::test::shared(name) << ", which is not beside this checkout"
