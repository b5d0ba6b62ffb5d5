// Puts a value of the run file into the field of its key, or says why it does not fit.
#pragma once

#include "base/result.h"
#include "run/entries.h"
#include "run/keys.h"

#include <filesystem>
#include <string>

namespace chaos::run {

// `subject` is what errors start with: the key's name. Paths are relative to `folder`.
[[nodiscard]] Result<void> assign(const Value& value, const std::string& subject, const Field& field,
                                  const std::filesystem::path& folder);

}  // namespace chaos::run
