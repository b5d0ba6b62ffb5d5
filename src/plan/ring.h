// A ring through all members: a cycle of the overlay, and the n paths that it is cut into.
#pragma once

#include "plan/overlay.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace chaos::plan {

// A cycle whose links are all at least as fast as `least_rate`, as ranks in order, if one is found within `effort`
// steps (Posa's rotations: extend the path; where it is stuck, turn its end round). Deterministic; may miss one that
// exists.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> find_cycle(const Overlay& overlay, std::uint64_t least_rate,
                                                                   std::uint32_t effort);

// The fastest cycle that a few searches find.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> find_fast_cycle(const Overlay& overlay, std::uint32_t effort);

// The links of a cycle: link k joins places k and k + 1.
[[nodiscard]] std::vector<std::uint32_t> links_of(const Overlay& overlay, const std::vector<std::uint32_t>& cycle);

// All cycles through all members, for overlays of few members.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> all_cycles(const Overlay& overlay);

// The paths that a cycle leaves when one link is taken out, each rooted where it fills fastest with chunks of q bytes;
// path k lacks the link between places k and k + 1.
[[nodiscard]] std::vector<Tree> paths_of(const Overlay& overlay, const std::vector<std::uint32_t>& cycle,
                                         std::uint64_t q);

}  // namespace chaos::plan
