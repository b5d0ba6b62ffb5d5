// What a node says of itself through its control socket (docs/control.md lists the fields), as text for people. Fields
// that are missing or null are left out or shown as "-". Texts may come from other nodes: what would command a terminal
// is not printed.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace chaos::cli {

// Several lines: the run, the members, the links, and what the node does or waits for.
[[nodiscard]] std::string status_text(const nlohmann::json& status);
// "12:03:07  4711ab01  sentence", with the view it happened in; one line.
[[nodiscard]] std::string event_text(const nlohmann::json& event);
// A sentence, and below it the details, one per line.
[[nodiscard]] std::string why_text(const nlohmann::json& why);
// The field "text" of whatever a command answers; one line, or nothing.
[[nodiscard]] std::string text_line(const nlohmann::json& answer);

// As much as fits on a terminal of that size, drawn over what was there.
[[nodiscard]] std::string redrawn(std::string_view text, std::size_t rows, std::size_t columns);

}  // namespace chaos::cli
