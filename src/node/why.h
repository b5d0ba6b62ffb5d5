// What a node waits for, and why it refused somebody or was refused, in words for people (docs/control.md). What the
// core, the steps, the donor and the joiner know of that is put together here.
#pragma once

#include "elastic/participant.h"

#include <chrono>
#include <span>
#include <string>
#include <vector>

namespace chaos::node {

struct Refusal {
    std::string text;
    bool by_others = false;  // this node was refused
    std::chrono::steady_clock::time_point at;
};

struct Why {
    std::string why;
    std::vector<std::string> details;
};
[[nodiscard]] Why why_of(const elastic::Participant& participant, std::span<const Refusal> refusals);

// What a step under way waits for.
[[nodiscard]] std::string words_of(const elastic::StepWait& wait, const std::optional<elastic::Donor::Pause>& pause,
                                   std::chrono::steady_clock::time_point now);

}  // namespace chaos::node
