// A cheap stand-in for Ed25519: a hash keyed with the node's secret. It proves as much inside a simulation, where
// nobody computes with the secret of another, and costs nanoseconds.
#pragma once

#include "base/random.h"
#include "cluster/message.h"

#include <cstring>

namespace chaos::sim {

// Hosts are found by their node's id in one step: its low half is the host's number. The high half spreads them, so
// that the order of ids is not the order of hosts.
[[nodiscard]] inline cluster::NodeId node_of(std::uint64_t seed, std::uint32_t host) {
    return {.high = random_bits(seed, 0x6e6f6465, host), .low = host};
}
[[nodiscard]] inline std::uint32_t host_of(cluster::NodeId node) {
    return static_cast<std::uint32_t>(node.low);
}

class Signer final : public cluster::Signer {
public:
    Signer(std::uint64_t seed, std::uint32_t host) : seed_(seed), host_(host) {}

    [[nodiscard]] cluster::Signature sign(std::span<const std::uint8_t> bytes) const override {
        return signature(host_, bytes);
    }
    [[nodiscard]] bool verify(cluster::NodeId author, std::span<const std::uint8_t> bytes,
                              const cluster::Signature& claimed) const override {
        return author == node_of(seed_, host_of(author)) && claimed == signature(host_of(author), bytes);
    }

private:
    [[nodiscard]] cluster::Signature signature(std::uint32_t host, std::span<const std::uint8_t> bytes) const {
        const std::uint64_t secret = random_bits(seed_, 0x736563726574, host);
        const std::uint64_t hash = xxh3(std::as_bytes(bytes));
        cluster::Signature result{};
        for (std::size_t i = 0; i < result.size(); i += sizeof hash) {
            const std::uint64_t part = random_bits(secret, hash, i);
            std::memcpy(result.data() + i, &part, sizeof part);
        }
        return result;
    }

    std::uint64_t seed_;
    std::uint32_t host_;
};

}  // namespace chaos::sim
