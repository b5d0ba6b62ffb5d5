// How an exchange ends, and why a chunk is refused.
#pragma once

#include "collective/transport.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace chaos::collective {

enum class Why : std::uint8_t {
    plan_differs,  // its sender executes another plan, or encodes or cuts it otherwise
    no_such_tree,
    no_such_chunk,
    wrong_size,
    not_from_there,  // sums come from children and results from the parent, in that tree
    repeated,
    not_asked_for,  // beyond the window, or a result before this member's sum has left
    far_ahead,      // of a step that cannot have begun anywhere
};

// Nothing changes by a chunk that is refused; its sender is at fault, or has a fault.
struct Refusal {
    NodeId from;
    ChunkHeader header;
    Why why = Why::plan_differs;
};
[[nodiscard]] std::string say(const Refusal& refusal);

// This member has the whole result, and what others need of it is on its way.
struct Complete {
    std::vector<NodeId> lost;  // peers that may lack it all the same
};

// It cannot come to an end here: a peer it needs is lost, or it was abandoned. Nothing of it will change any more.
struct Interrupted {
    std::vector<NodeId> lost;
    std::vector<std::vector<bool>> known;  // per tree and chunk: whether the result is here
};

// A neighbour executes another plan.
struct Refused {
    Refusal refusal;
};

using Outcome = std::variant<Complete, Interrupted, Refused>;

}  // namespace chaos::collective
