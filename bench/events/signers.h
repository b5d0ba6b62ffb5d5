// Two signers: the cheap stand-in that simulations use, and Ed25519 as live nodes use it.
#pragma once

#include "cluster/message.h"

#include <memory>
#include <vector>

namespace chaos::bench {

struct Resident {
    cluster::NodeId id;
    std::unique_ptr<cluster::Signer> signer;
    std::vector<std::uint8_t> credential;
};

// So many nodes of one institution, in order of their ids. All know each other's keys.
struct Residents {
    cluster::Name institution{};
    std::vector<Resident> nodes;
};
[[nodiscard]] Residents make_residents(std::uint64_t seed, std::uint32_t count, bool real);

}  // namespace chaos::bench
