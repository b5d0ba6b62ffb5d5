// The commands' end of a node's control socket (control.h). It blocks: it is for processes that do nothing else.
#pragma once

#include "base/result.h"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>

namespace chaos::node {

// What to do with a line of an answer; an error ends it.
using OnLine = std::function<Result<void>(const nlohmann::json&)>;

// Sends a request to the node that runs in DIR, and hands over each line of the answer as it comes. An error line of
// the node's is an Error, and so is an answer that ends before it is complete. `patience`: how long the node may say
// nothing before it counts as stuck; absent: for ever.
[[nodiscard]] Result<void> ask(const std::filesystem::path& dir, const nlohmann::json& request, const OnLine& on_line,
                               std::optional<std::chrono::milliseconds> patience = std::nullopt);

}  // namespace chaos::node
