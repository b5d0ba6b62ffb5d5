// Puts a value of the run file into the field of its key, or says why it does not fit.
#pragma once

#include "base/result.h"
#include "run/entries.h"
#include "run/keys.h"

#include <filesystem>
#include <string>
#include <vector>

namespace chaos::run {

// `subject` is what errors start with: the key's name. Paths are relative to `folder`.
[[nodiscard]] Result<void> assign(const Value& value, const std::string& subject, const Field& field,
                                  const std::filesystem::path& folder);

// Puts paths that are known into the field of a key that takes some. Nothing is looked for.
[[nodiscard]] Result<void> assign(const std::vector<std::filesystem::path>& paths, const std::string& subject,
                                  const Field& field);

}  // namespace chaos::run
