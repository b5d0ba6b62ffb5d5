// What no key decides alone: defaults that follow from other keys, and whether the keys fit together.
#pragma once

#include "run/run.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::run {

// A sentence without the place in the file; that is the line of the first of `keys` that the file sets.
struct Conflict {
    std::string sentence;
    std::vector<std::string_view> keys;
};

// Fills in defaults and checks a run whose every key has been read and is in range. With model.init the shape of the
// model is not looked at: it is not known yet.
[[nodiscard]] std::optional<Conflict> settle(Run& run);

}  // namespace chaos::run
