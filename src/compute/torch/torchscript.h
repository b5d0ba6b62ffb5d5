// Any model saved as TorchScript (torch.jit.script or torch.jit.trace, then save), trained as it is. The contract:
//
//   forward(input) -> output       loss = "cross_entropy": output {count, classes}, or {count, context, classes} where
//                                     the data have a target at every position
//                                  loss = "nll": the same, of log-probabilities
//                                  loss = "mse": output {count} or {count, 1}, compared with the target as a float
//   forward(input, target) -> loss loss = "module": a scalar, the mean over the targets; there are no outputs and
//                                     nothing is counted as correct
//
//   input:  int64 {count, context} of tokens, or float {count, ...} as the data's samples are
//   target: int64 {count}, or {count, context} where the data have a target at every position
//
// Dropout uses LibTorch's generator, seeded by (seed, step, number of the batch's first sample): unlike our own
// models', it depends on how a batch is divided.
#pragma once

#include "compute/engine.h"
#include "compute/torch/network.h"

namespace chaos::compute {

// Loads options.model.path and runs two samples through it; a file that breaks the contract is refused with what was
// found and what was expected.
[[nodiscard]] Result<Network> load_torchscript_network(const EngineOptions& options);

}  // namespace chaos::compute
