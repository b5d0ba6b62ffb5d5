// Two signers: the cheap stand-in that simulations use, and Ed25519 as live nodes use it.
#pragma once

#include "cluster/message.h"

#include <memory>
#include <utility>
#include <vector>

namespace chaos::bench {

// So many nodes with a signer each, in order of their ids. All know each other's keys.
[[nodiscard]] std::vector<std::pair<cluster::NodeId, std::unique_ptr<cluster::Signer>>> make_signers(
    std::uint64_t seed, std::uint32_t count, bool real);

}  // namespace chaos::bench
