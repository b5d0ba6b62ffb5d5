// The seed of a random test: another one in every run, and the same one again with --gtest_random_seed.
#pragma once

#include <gtest/gtest.h>
#include <cstdint>
#include <iostream>
#include <random>

namespace chaos::plan::test {

inline std::uint64_t fresh_seed() {
    const auto asked = static_cast<std::uint64_t>(GTEST_FLAG_GET(random_seed));
    const std::uint64_t seed = asked != 0 ? asked : 1 + std::random_device()() % 99'999;
    std::cout << "--gtest_random_seed=" << seed << " repeats this\n";
    return seed;
}

}  // namespace chaos::plan::test
