// Two signers: the cheap stand-in that simulations use, and Ed25519 by OpenSSL as live nodes will use it.
#pragma once

#include "cluster/message.h"

#include <memory>
#include <vector>

namespace chaos::bench {

// A signer for each node; all know each other's keys.
[[nodiscard]] std::vector<std::unique_ptr<cluster::Signer>> make_signers(const std::vector<cluster::NodeId>& nodes,
                                                                         bool real);

}  // namespace chaos::bench
