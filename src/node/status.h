// What nodes of all kinds tell of themselves (docs/control.md).
#pragma once

#include "live/member.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace chaos::node {

using cluster::NodeId;

// All 32 digits.
[[nodiscard]] std::string text_of(NodeId node);
[[nodiscard]] std::string_view words_of(cluster::Role role);
// Those that are in.
[[nodiscard]] nlohmann::json institutions_of(const cluster::View& view);
[[nodiscard]] nlohmann::json links_of(const cluster::View& view);
[[nodiscard]] nlohmann::json connections_of(const net::Links& links);
[[nodiscard]] nlohmann::json counters_of(const live::Member& member);

}  // namespace chaos::node
