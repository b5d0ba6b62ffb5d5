// The cluster core's signatures by real keys: each carries its author's public key, which its id is the hash of. What
// institutions sign is read here for it too.
#pragma once

#include "net/credential.h"

namespace chaos::net {

class KeySigner final : public cluster::Signer {
public:
    explicit KeySigner(SecretKey key) : key_(std::move(key)) {}
    [[nodiscard]] cluster::Signature sign(std::span<const std::uint8_t> bytes) const override;
    [[nodiscard]] bool verify(cluster::NodeId author, std::span<const std::uint8_t> bytes,
                              const cluster::Signature& signature) const override;
    [[nodiscard]] Result<cluster::Vouched> vouched(cluster::NodeId node,
                                                   std::span<const std::uint8_t> credential) const override;
    [[nodiscard]] Result<cluster::Revocation> revocation(std::span<const std::uint8_t> bytes) const override;

private:
    SecretKey key_;
};

}  // namespace chaos::net
