// The cluster core's signatures by real keys: each carries its author's public key, which its id is the hash of.
#pragma once

#include "net/key.h"

namespace chaos::net {

class KeySigner final : public cluster::Signer {
public:
    explicit KeySigner(SecretKey key) : key_(std::move(key)) {}
    [[nodiscard]] cluster::Signature sign(std::span<const std::uint8_t> bytes) const override;
    [[nodiscard]] bool verify(cluster::NodeId author, std::span<const std::uint8_t> bytes,
                              const cluster::Signature& signature) const override;

private:
    SecretKey key_;
};

}  // namespace chaos::net
