// A cheap stand-in for Ed25519: hashes keyed with the secrets of nodes, institutions and join tokens. It proves as much
// inside a simulation, where nobody computes with the secret of another, and costs nanoseconds.
#pragma once

#include "cluster/message.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace chaos::sim {

// Hosts are found by their node's id in one step: its low half is the host's number. The high half spreads them, so
// that the order of ids is not the order of hosts.
[[nodiscard]] cluster::NodeId node_of(std::uint64_t seed, std::uint32_t host);
[[nodiscard]] inline std::uint32_t host_of(cluster::NodeId node) {
    return static_cast<std::uint32_t>(node.low);
}

// Institutions and tokens are numbered; token 0 is none.
[[nodiscard]] cluster::Name institution_root(std::uint8_t number);
[[nodiscard]] cluster::JoinToken token_of(std::uint64_t seed, std::uint32_t token);

// What an institution issues: a certificate for the host, or what it makes of a token.
[[nodiscard]] std::vector<std::uint8_t> issue_credential(std::uint64_t seed, std::uint8_t institution,
                                                         std::uint32_t host, std::uint32_t token);
[[nodiscard]] std::vector<std::uint8_t> issue_revocation(std::uint64_t seed, std::uint8_t institution,
                                                         cluster::NodeId subject);

class Signer final : public cluster::Signer {
public:
    Signer(std::uint64_t seed, std::uint32_t host) : seed_(seed), host_(host) {}

    // An impostor: whatever its credential is, it says this of itself. Others are not impressed.
    void pretend(cluster::Vouched pretence) { pretence_ = pretence; }

    [[nodiscard]] cluster::Signature sign(std::span<const std::uint8_t> bytes) const override;
    [[nodiscard]] bool verify(cluster::NodeId author, std::span<const std::uint8_t> bytes,
                              const cluster::Signature& claimed) const override;
    [[nodiscard]] Result<cluster::Vouched> vouched(cluster::NodeId node,
                                                   std::span<const std::uint8_t> credential) const override;
    [[nodiscard]] Result<cluster::Revocation> revocation(std::span<const std::uint8_t> bytes) const override;

private:
    [[nodiscard]] cluster::Signature signature(std::uint32_t host, std::span<const std::uint8_t> bytes) const;

    std::uint64_t seed_;
    std::uint32_t host_;
    std::optional<cluster::Vouched> pretence_;
};

}  // namespace chaos::sim
