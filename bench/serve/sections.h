// The sections of the benchmark; main.cpp says what each is for. Each adds what it found, and says on standard error
// how far it is.
#pragma once

#include "base/result.h"
#include "findings.h"

#include <filesystem>

namespace chaos::bench {

struct Wish {
    bool quick = false;
    std::filesystem::path models;  // same: the models of ../shared
};

[[nodiscard]] Result<void> measure_same(const Wish& wish, Findings& findings);
[[nodiscard]] Result<void> measure_pair(const Wish& wish, Findings& findings);
[[nodiscard]] Result<void> measure_delay(const Wish& wish, Findings& findings);
[[nodiscard]] Result<void> measure_memory(const Wish& wish, Findings& findings);
[[nodiscard]] Result<void> measure_healing(const Wish& wish, Findings& findings);
[[nodiscard]] Result<void> measure_forecast(const Wish& wish, Findings& findings);

}  // namespace chaos::bench
