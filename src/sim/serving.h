// A tensor plan carried out on devices that exist only as numbers: some tokens, event by event. What tensor_plan.h
// foresees with a formula happens here one message and one part of the weights at a time:
//
//   compute   a phase's pinned weights first, then its streamed parts in order, each when it has arrived
//   disk      reads the streamed parts of all phases round and round into a ring; a part's place is free again when it
//             has been multiplied
//   messages  are taken up one after the other by each device's one I/O thread (message_ns for each sent or received),
//             queue for the card of the sender, the link and the card of the receiver, and are under way for the delay
//
// A device goes on to its next phase when it has the sum of all; nobody waits for anything else, so a fast one may be
// an exchange ahead. The same request and plan give the same run everywhere.
#pragma once

#include "plan/tensor_plan.h"
#include "sim/queue.h"

#include <cstdint>
#include <vector>

namespace chaos::sim {

struct ServingDevice {
    Time computing = 0;
    Time waiting_for_disk = 0;
    Time waiting_for_others = 0;
};

struct ServingOutcome {
    Time token_ns = 0;                   // the mean, without the first ones, for which the ring was filled beforehand
    std::vector<Time> token_ends;        // when the last device had it
    std::vector<ServingDevice> devices;  // in the request's order, all tokens together
    std::uint64_t messages = 0;
};

// `plan` is plan_tensor's for the request; at least 3 tokens.
[[nodiscard]] ServingOutcome simulate_serving(const plan::TensorRequest& request, const plan::TensorPlan& plan,
                                              std::uint32_t tokens);

}  // namespace chaos::sim
