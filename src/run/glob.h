// File names with the wildcards * (any characters) and ? (one character).
#pragma once

#include "base/result.h"

#include <cstddef>
#include <filesystem>
#include <string_view>
#include <vector>

namespace chaos::run {

[[nodiscard]] bool has_wildcard(std::string_view name);

// As in a shell, a leading dot is matched by a dot only.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name);

// The files in `folder` whose names match, sorted by name byte for byte: the order of samples depends on it.
[[nodiscard]] Result<std::vector<std::filesystem::path>> matching_files(const std::filesystem::path& folder,
                                                                        std::string_view pattern);

}  // namespace chaos::run
