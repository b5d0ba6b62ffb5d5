// Which node a command is for.
#pragma once

#include "base/result.h"

#include <filesystem>

namespace chaos::cli {

// The folder of the node: `given` (--dir) if there is one, else `preset` ($CHAOS_DIR), else `current` if a node's
// control socket lies there, else the only subfolder of it in which one lies.
[[nodiscard]] Result<std::filesystem::path> node_folder(const std::filesystem::path& given,
                                                        const std::filesystem::path& preset,
                                                        const std::filesystem::path& current = ".");

}  // namespace chaos::cli
